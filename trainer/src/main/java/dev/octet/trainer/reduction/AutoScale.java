package dev.octet.trainer.reduction;

/**
 * The automatic pre-scale µ of FP8-LM (arXiv:2310.18313, equation 3), which every rank's scale of a tensor is multiplied by. When more than {@code ratio} of the average's
 * codes are saturated, µ is halved for the next step; otherwise it grows so that it doubles over {@code window} steps. MS-AMP's pull request 140 does
 * this per tensor and begins at {@code 1 / √N}; so does Octet. Shipped versions of MS-AMP have no µ.
 *
 * @param ratio share of saturated codes above which µ is halved, 0 to 1
 * @param window steps in which µ doubles, at least 1
 */
public record AutoScale(double ratio, int window) {
    /** The constants of MS-AMP's examples. */
    public static final AutoScale DEFAULT = new AutoScale(1e-5, 1000);

    public AutoScale {
        if (!(ratio >= 0 && ratio <= 1) || window < 1) {
            throw new IllegalArgumentException("a ratio of " + ratio + " over a window of " + window + " steps");
        }
    }

    /** The first µ. */
    public static float first(int ranks) {
        return (float) (1 / Math.sqrt(ranks));
    }

    /** What µ is multiplied by in a step that saturates little, in FP32. */
    public float growth() {
        return (float) Math.pow(2, 1.0 / window);
    }

    /**
     * The µ of the next step.
     *
     * @param saturated codes of the average that stand for ±448
     * @param elements of the tensor
     * @param amax largest magnitude of any rank's gradient. A tensor of zeros, or one with NaN or an infinity, leaves µ as it is
     */
    public float next(float mu, long saturated, long elements, float amax) {
        if (!(amax > 0) || Float.isInfinite(amax)) {
            return mu;
        }
        return (double) saturated / elements > ratio ? mu / 2 : mu * growth();
    }
}
