package dev.octet.quant.scale;

import dev.octet.quant.number.Float8Format;

/**
 * Delayed scaling of one tensor, as in Transformer Engine: computes the multiplier of the next step from the largest magnitudes of earlier
 * steps.
 *
 * <p>A history is an array of L numbers. Element 0 is the <em>pending</em> amax: casts raise it while a step runs. An update moves it
 * behind the others, to element L - 1, and clears element 0; the window it looks at is the pending number and the L - 1 others, one of
 * which then drops out. Before the first step all are 0 and the multiplier is 1.
 */
public final class AmaxHistory {
    /** Which number of the window counts. */
    public enum Algorithm {
        /** The largest. */
        MAX,
        /** The pending one. */
        MOST_RECENT
    }

    private AmaxHistory() {}

    /** The numerator of the multiplier, whose denominator is amax: the format's largest number over {@code 2^margin}, in FP32. */
    public static float scaledMax(Float8Format format, int margin) {
        return (float) Math.scalb((double) format.maxValue(), -margin);
    }

    /**
     * Raises the pending amax. NaN raises nothing.
     *
     * @param amax largest magnitude of what was cast
     */
    public static void record(float[] history, float amax) {
        history[0] = raised(history[0], amax);
    }

    /** The larger of a pending amax and another, ignoring NaN. */
    public static float raised(float pending, float amax) {
        return amax > pending ? amax : pending;
    }

    /**
     * The fused update, Transformer Engine's default. A slot that saw nothing (pending 0: a cached weight, an unused operand) stays as it
     * is, history and multiplier. An infinity in the window keeps the multiplier until it has moved out; NaN is skipped by MAX and
     * keeps the multiplier under MOST_RECENT.
     *
     * @param history rolled in place
     * @param quantScale the multiplier so far
     * @param scaledMax {@link #scaledMax}
     * @return the multiplier from now on
     */
    public static float update(float[] history, float quantScale, float scaledMax, Algorithm algorithm) {
        float last = history[0];
        float largest = 0;
        if (last != 0) {
            roll(history);
            history[history.length - 1] = last;
            largest = last > 0 ? last : 0; // not NaN
            for (int i = 0; i < history.length - 1; i++) {
                largest = raised(largest, history[i]);
            }
            history[0] = 0;
        }
        float amax = algorithm == Algorithm.MOST_RECENT ? last : largest;
        return amax > 0 && Float.isFinite(amax) ? finite(scaledMax / amax) : quantScale;
    }

    /**
     * The unfused update, which Transformer Engine takes when NVTE_UNFUSED_FP8_UPDATE is set: every slot rolls, those that saw nothing
     * too, NaN in the window keeps the multiplier, and the margin divides last, so that a quotient can overflow first.
     *
     * @param history rolled in place
     * @param quantScale the multiplier so far
     * @return the multiplier from now on
     */
    public static float updateUnfused(
            float[] history, float quantScale, Float8Format format, int margin, Algorithm algorithm) {
        float amax = history[0];
        if (algorithm == Algorithm.MAX) {
            for (float a : history) {
                amax = Math.max(amax, a); // NaN wins
            }
        }
        float last = history[0];
        roll(history);
        history[history.length - 1] = last;
        history[0] = 0;
        if (!(amax > 0) || !Float.isFinite(amax)) {
            return quantScale;
        }
        float quotient = format.maxValue() / amax;
        return finite(quotient / (float) Math.scalb(1.0, margin));
    }

    private static void roll(float[] history) {
        System.arraycopy(history, 1, history, 0, history.length - 1);
    }

    private static float finite(float quantScale) {
        return Float.isInfinite(quantScale) ? Float.MAX_VALUE : quantScale;
    }
}
