package dev.octet.trainer.rule;

/**
 * LAMB (You et al., arXiv:1904.00962): AdamW whose learning rate of a tensor is multiplied by the norm of the tensor over that of its update.
 *
 * @param formula whose bias correction
 * @param biasCorrection whether moments are corrected for their start at 0
 * @param minCoeff least ratio of the norms
 * @param maxCoeff largest ratio of the norms; infinity for none
 * @param alwaysAdapts whether tensors without weight decay have a ratio too; apex's {@code use_nvlamb}
 */
public record LambRule(Formula formula, boolean biasCorrection, double minCoeff, double maxCoeff, boolean alwaysAdapts)
        implements UpdateRule {
    /** Whose implementation. */
    public enum Formula {
        /** As the paper has it and apex's FusedLAMB: the update is that of corrected moments. */
        APEX,
        /**
         * DeepSpeed's FusedLamb: the update is that of moments as they are, and the correction multiplies the step, weight decay included.
         */
        DEEPSPEED
    }

    /** The defaults of apex. */
    public static final LambRule APEX = new LambRule(Formula.APEX, true, 0, Double.POSITIVE_INFINITY, false);

    /** The defaults of DeepSpeed. */
    public static final LambRule DEEPSPEED = new LambRule(Formula.DEEPSPEED, true, 0.01, 10, true);

    /** Refuses bounds that exclude each other. */
    public LambRule {
        if (!(minCoeff >= 0 && maxCoeff >= minCoeff)) {
            throw new IllegalArgumentException("ratios from " + minCoeff + " to " + maxCoeff);
        }
    }

    /** Whether the update is that of corrected moments. */
    public boolean correctsMoments() {
        return biasCorrection && formula == Formula.APEX;
    }

    /** Whether the correction multiplies the step. */
    public boolean correctsStep() {
        return biasCorrection && formula == Formula.DEEPSPEED;
    }
}
