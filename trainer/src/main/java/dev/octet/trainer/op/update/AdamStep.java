package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * One step of Adam (Kingma and Ba, arXiv:1412.6980) or, when decoupled, AdamW (Loshchilov and Hutter, arXiv:1711.05101), as torch
 * computes it, t being the step's number from 1:
 *
 * <pre>
 * g  = gradient · factor                       Adam: g += weightDecay · p     AdamW: p *= 1 - lr · weightDecay
 * m += (1 - β₁) (g - m)      v = β₂ v + (1 - β₂) g²
 * p -= lr / (1 - β₁ᵗ) · m / (√v / √(1 - β₂ᵗ) + eps)
 * </pre>
 *
 * <p>Inputs: p, gradient, m, v, then the scalars lr, t, factor, and whether the step is left out (1, then nothing changes). Outputs: p, m
 * and v, which lie where the inputs do.
 *
 * @param p type of the parameter
 * @param moment type of m and v
 */
public record AdamStep(
        OperandType p,
        OperandType moment,
        double beta1,
        double beta2,
        double eps,
        double weightDecay,
        boolean decoupled)
        implements UpdateOp {
    /** Its row in the table of operators. */
    public static final OpEntry<AdamStep> ENTRY =
            UpdateOp.entry(AdamStep.class, UpdateReference::adam, new AdamStepCpu(), new AdamStepCuda());

    /** Scalars of a step: lr, t, factor, whether it is left out. */
    record Scalars(double lr, double t, double factor, boolean leftOut) {}

    @Override
    public String type() {
        return decoupled ? "AdamW" : "Adam";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(p, moment, moment);
    }

    /** lr / (1 - β₁ᵗ). */
    double stepSize(Scalars s) {
        return s.lr / (1 - Math.pow(beta1, s.t));
    }

    /** √(1 - β₂ᵗ). */
    double rootCorrection(Scalars s) {
        return Math.sqrt(1 - Math.pow(beta2, s.t));
    }

    /** What p is multiplied by before the step. */
    double kept(Scalars s) {
        return decoupled ? 1 - s.lr * weightDecay : 1;
    }

    /** How much of p is added to the gradient. */
    double coupledDecay() {
        return decoupled ? 0 : weightDecay;
    }
}
