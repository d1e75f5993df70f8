package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.shard.SharedTensor;
import dev.octet.trainer.rule.LambRule;
import java.util.List;

/**
 * What LAMB multiplies the learning rate of a tensor by (You et al., arXiv:1904.00962, algorithm 2), as {@link LambRule} has it; t is the step's number from 1:
 *
 * <pre>
 * g = gradient · factor      m' = β₁ m + (1 - β₁) g      v' = β₂ v + (1 - β₂) g²
 * u = m' / (1 - β₁ᵗ) / (√v' / √(1 - β₂ᵗ) + eps) + weightDecay · p          uncorrected: u = m' / (√v' + eps) + weightDecay · p
 * ratio = ‖p‖ / ‖u‖ within its bounds; 1 where one of them is 0, or where the tensor does not adapt
 * DeepSpeed: ratio · √(1 - β₂ᵗ) / (1 - β₁ᵗ)
 * </pre>
 *
 * <p>Inputs: p, gradient, m, v as they were before the step, then the scalars t, factor. Output: the multiplier, F32.
 *
 * @param p type of the parameter
 * @param moment type of m and v
 * @param of the tensor whose norms these are, of which ranks may have parts
 */
public record TrustRatio(
        OperandType p,
        OperandType moment,
        double beta1,
        double beta2,
        double eps,
        double weightDecay,
        LambRule rule,
        SharedTensor of)
        implements UpdateOp {
    /** Its row in the table of operators. */
    public static final OpEntry<TrustRatio> ENTRY =
            UpdateOp.entry(TrustRatio.class, UpdateReference::trustRatio, new TrustRatioCpu(), new TrustRatioCuda());

    @Override
    public String type() {
        return "TrustRatio";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(SCALAR);
    }

    /** The variant of AdamW whose learning rate the ratio multiplies. */
    public static AdamStep.Variant variant(LambRule rule) {
        return rule.correctsMoments() ? AdamStep.Variant.SCALED_ADAMW : AdamStep.Variant.SCALED_UNCORRECTED;
    }

    /** 1 - β₁ᵗ, or 1. */
    double correction(double t) {
        return rule.correctsMoments() ? 1 - Math.pow(beta1, t) : 1;
    }

    /** √(1 - β₂ᵗ), or 1. */
    double rootCorrection(double t) {
        return rule.correctsMoments() ? Math.sqrt(1 - Math.pow(beta2, t)) : 1;
    }

    /** The output, from the sums of the squares of this rank's p and update. */
    double multiplier(double ownSquaresOfP, double ownSquaresOfUpdate, double t) {
        double[] sums = of.sums(ownSquaresOfP, ownSquaresOfUpdate);
        double squaresOfP = sums[0];
        double squaresOfUpdate = sums[1];
        double ratio = 1;
        if ((rule.alwaysAdapts() || weightDecay != 0) && squaresOfP > 0 && squaresOfUpdate > 0) {
            ratio = Math.clamp(Math.sqrt(squaresOfP) / Math.sqrt(squaresOfUpdate), rule.minCoeff(), rule.maxCoeff());
        }
        return rule.correctsStep() ? ratio * (Math.sqrt(1 - Math.pow(beta2, t)) / (1 - Math.pow(beta1, t))) : ratio;
    }
}
