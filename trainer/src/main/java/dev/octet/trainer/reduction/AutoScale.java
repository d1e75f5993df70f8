package dev.octet.trainer.reduction;

/**
 * The automatic factor μ of the FP8-LM paper (arXiv:2310.18313 section 2.1), which MS-AMP never merged (its issue 117): gradients are multiplied by it before they are cast, so that
 * sums over ranks neither saturate nor vanish. Where more than {@code ratio} of a step's elements are the largest number it halves; otherwise it grows so that it doubles in
 * {@code window} steps.
 *
 * @param factor μ; 1 at first
 * @param ratio 1e-5 in the paper
 * @param window 1000 in the paper
 */
public record AutoScale(float factor, double ratio, int window) {
    /** The paper's numbers. */
    public static final AutoScale DEFAULT = new AutoScale(1, 1e-5, 1000);

    public AutoScale {
        if (!(factor > 0) || !(ratio >= 0) || window < 1) {
            throw new IllegalArgumentException("factor " + factor + ", ratio " + ratio + ", window " + window);
        }
    }

    /**
     * The factor of the next step.
     *
     * @param saturated elements of all reduced gradients that are the largest number
     * @param elements of all reduced gradients
     */
    public AutoScale next(long saturated, long elements) {
        float next = saturated > ratio * elements ? factor / 2 : (float) (factor * Math.pow(2, 1.0 / window));
        return new AutoScale(next, ratio, window);
    }
}
