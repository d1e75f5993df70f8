package dev.octet.quant.scale;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;

/**
 * MS-AMP's scaling of activations and of their gradients (msamp/common/tensor/cast.py, msamp/optim/optimizer.py): from the tensor itself during
 * its first {@code size} steps, and from the largest magnitudes of the last {@code size} steps afterwards. A step whose amax was not
 * finite sends the tensor back to the first steps.
 *
 * <p>What is remembered of a tensor is its multiplier and a <em>window</em>: {@code size} amaxes, the pending one first and then the newest,
 * followed by the number of steps since the last one that was not finite. Casts read and raise both; {@link #update} follows a step of
 * the optimizer that counts.
 *
 * @param rule from amax to multiplier
 * @param size of the window; 16 in MS-AMP
 */
public record WindowedScale(MsampScale rule, int size) implements QuantScaleRule {
    /** MS-AMP's size for inputs and gradients of outputs. */
    public static final int SIZE = 16;

    public WindowedScale {
        if (size < 1) {
            throw new IllegalArgumentException("a window of " + size + " steps");
        }
    }

    /** Numbers in a window: the amaxes and the number of steps. */
    public int length() {
        return size + 1;
    }

    /** Whether the next cast takes its scale from the tensor itself. */
    public boolean isInTime(float[] window) {
        return size == 1 || window[size] < size;
    }

    /**
     * What a tensor is multiplied by before it is cast.
     *
     * @param window its pending amax is replaced (the library's oddity: the last of several micro-batches counts) or raised
     * @param before the multiplier so far
     * @param amax largest magnitude of the tensor; NaN when one of its elements is
     * @param max largest number of the type that is cast to
     */
    public float cast(float[] window, float before, float amax, float max) {
        window[0] = pending(window, window[0], amax);
        return isInTime(window) ? rule.quantScale(amax, before, max) : before;
    }

    /**
     * The pending amax after another tensor.
     *
     * @param window whose number of steps counts
     * @param pending amax so far
     * @param amax of the other tensor
     */
    public float pending(float[] window, float pending, float amax) {
        if (isInTime(window)) {
            return rule.quirks() || !(pending >= amax) ? amax : pending;
        }
        return AmaxHistory.raised(pending, amax);
    }

    /**
     * The multiplier after a step of the optimizer.
     *
     * @param window moved on by one
     * @param before the multiplier so far
     */
    public float update(float[] window, float before, float max) {
        boolean finite = Float.isFinite(window[0]);
        if (!finite) {
            window[0] = 0;
        }
        float largest = 0;
        for (int i = 0; i < size; i++) {
            largest = Math.max(largest, window[i]);
        }
        System.arraycopy(window, 0, window, 1, size - 1);
        window[0] = 0;
        // counted no further than the size: beyond, nothing depends on it
        window[size] = finite ? Math.min(window[size] + 1, size) : 0;
        return rule.quantScale(largest, before, max);
    }

    /** {@inheritDoc} That of a tensor met for the first time. */
    @Override
    public float quantScale(float amax, Float8Format format, DType input) {
        return rule.quantScale(amax, format, input);
    }

    @Override
    public boolean isPowerOfTwo() {
        return true;
    }

    @Override
    public boolean seesNaN() {
        return true;
    }
}
