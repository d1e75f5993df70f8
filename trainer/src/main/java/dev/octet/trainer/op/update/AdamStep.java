package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import java.util.function.IntToDoubleFunction;

/**
 * One step of Adam (Kingma and Ba, arXiv:1412.6980) or, when decoupled, AdamW (Loshchilov and Hutter, arXiv:1711.05101), as torch
 * computes it, or StableAdamW, which is AdamW with the learning rate divided by {@link UpdateRms} where that is above 1, or a step whose learning rate is
 * multiplied by a number of the tensor, as LAMB's by {@link TrustRatio}; t is the step's number from 1:
 *
 * <pre>
 * g  = gradient · factor                       Adam: g += weightDecay · p     AdamW: p *= 1 - lr · weightDecay
 * m += (1 - β₁) (g - m)      v = β₂ v + (1 - β₂) g²
 * p -= lr / (1 - β₁ᵗ) · m / (√v / √(1 - β₂ᵗ) + eps)
 * </pre>
 *
 * <p>Without correction both powers of β are taken as 0. Inputs: p, gradient, m, v, then the scalars lr, t, factor, whether the step is left out (1, then nothing
 * changes), and for StableAdamW the rms, for a scaled step the multiplier. Outputs: p, m and v, which lie where the inputs do.
 *
 * @param p type of the parameter
 * @param moment type of m and v
 * @param cycles whether β₁ is the last input instead
 */
public record AdamStep(
        OperandType p,
        OperandType moment,
        double beta1,
        double beta2,
        double eps,
        double weightDecay,
        Variant variant,
        boolean cycles)
        implements UpdateOp, ElementStep {
    /** How weight decay and the learning rate enter. */
    public enum Variant {
        /** Weight decay is added to the gradient. */
        ADAM,
        /** Weight decay shrinks the parameter. */
        ADAMW,
        /** As AdamW; the update of a tensor is clipped. */
        STABLE_ADAMW,
        /** As AdamW; the learning rate of a tensor is multiplied by an input. */
        SCALED_ADAMW,
        /** The same without bias correction. */
        SCALED_UNCORRECTED
    }

    /** Its row in the table of operators. */
    public static final OpEntry<AdamStep> ENTRY =
            UpdateOp.entry(AdamStep.class, UpdateReference::adam, new AdamStepCpu(), new AdamStepCuda());

    /** The index of the rms, or of the multiplier, among the inputs. */
    static final int RATE = 8;

    /** A step whose β₁ is fixed. */
    public AdamStep(
            OperandType p,
            OperandType moment,
            double beta1,
            double beta2,
            double eps,
            double weightDecay,
            Variant variant) {
        this(p, moment, beta1, beta2, eps, weightDecay, variant, false);
    }

    /** This step with β₁ from an input. */
    public AdamStep cycling() {
        return new AdamStep(p, moment, beta1, beta2, eps, weightDecay, variant, true);
    }

    /** The input that holds β₁. */
    int betaInput() {
        return measuresRate() ? RATE + 1 : RATE;
    }

    /** This step with the β₁ of its inputs, read by their index. */
    AdamStep now(IntToDoubleFunction read) {
        return cycles
                ? new AdamStep(p, moment, read.applyAsDouble(betaInput()), beta2, eps, weightDecay, variant)
                : this;
    }

    boolean decoupled() {
        return variant != Variant.ADAM;
    }

    @Override
    public boolean measuresRate() {
        return variant == Variant.STABLE_ADAMW || isScaled();
    }

    /** Whether the learning rate is multiplied by an input. */
    boolean isScaled() {
        return variant == Variant.SCALED_ADAMW || variant == Variant.SCALED_UNCORRECTED;
    }

    /** Whether moments are corrected for their start at 0. */
    boolean corrects() {
        return variant != Variant.SCALED_UNCORRECTED;
    }

    @Override
    public double rate(double lr, double measured) {
        return isScaled() ? lr * measured : ElementStep.super.rate(lr, measured);
    }

    /** The scalars, read by the index of the input. */
    StepScalars scalars(IntToDoubleFunction read) {
        double lr = read.applyAsDouble(4);
        return new StepScalars(
                measuresRate() ? rate(lr, read.applyAsDouble(RATE)) : lr,
                read.applyAsDouble(5),
                read.applyAsDouble(6),
                read.applyAsDouble(7) != 0);
    }

    @Override
    public String type() {
        return switch (variant) {
            case ADAM -> "Adam";
            case ADAMW -> "AdamW";
            case STABLE_ADAMW -> "StableAdamW";
            case SCALED_ADAMW, SCALED_UNCORRECTED -> "ScaledAdamW";
        };
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(p, moment, moment);
    }

    /** lr / (1 - β₁ᵗ). */
    double stepSize(StepScalars s) {
        return corrects() ? s.lr() / (1 - Math.pow(beta1, s.t())) : s.lr();
    }

    /** √(1 - β₂ᵗ). */
    double rootCorrection(StepScalars s) {
        return corrects() ? Math.sqrt(1 - Math.pow(beta2, s.t())) : 1;
    }

    /** What p is multiplied by before the step. */
    double kept(StepScalars s) {
        return decoupled() ? 1 - s.lr() * weightDecay : 1;
    }

    /** How much of p is added to the gradient. */
    double coupledDecay() {
        return decoupled() ? 0 : weightDecay;
    }

    @Override
    public int buffers() {
        return 2;
    }

    @Override
    public TileStep tile(StepScalars s) {
        return new AdamTile(this, s);
    }

    @Override
    public CudaRule cuda() {
        int id = switch (variant) {
            case ADAM, ADAMW, STABLE_ADAMW -> 0;
            case SCALED_ADAMW -> 7;
            case SCALED_UNCORRECTED -> 8;
        };
        return new CudaRule(id, List.of(beta1, beta2, eps), decoupled(), weightDecay);
    }

    @Override
    public ElementFormula formula(StepScalars s) {
        return x -> {
            double g = x[1] * s.factor() + coupledDecay() * x[0];
            x[2] += (1 - beta1) * (g - x[2]);
            x[3] = beta2 * x[3] + (1 - beta2) * g * g;
            x[0] = x[0] * kept(s) - stepSize(s) * x[2] / (Math.sqrt(x[3]) / rootCorrection(s) + eps);
        };
    }
}
