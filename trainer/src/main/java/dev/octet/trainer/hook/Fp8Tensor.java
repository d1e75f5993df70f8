package dev.octet.trainer.hook;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.LinearTensor;

/**
 * How a tensor fitted the FP8 codes it was cast to in one step, all its micro-batches and products together.
 *
 * @param slot its name among the scales, as {@code fp8.NODE.input}, {@code fp8.WEIGHT.weight}, {@code fp8.NODE.grad_output}
 * @param layer the first Linear that casts it
 * @param tensor which operand of that it is
 * @param format of its codes
 * @param elements that were cast
 * @param clipped elements that lay, scaled and rounded, beyond the format's largest number and became it
 * @param underflowed elements other than 0 that became 0
 * @param amax largest magnitude before the cast, NaN left out
 * @param scale dequantisation multiplier of the last cast; the largest one where rows or blocks have their own
 * @param historyLength how many amaxes the scale is made from; 0 when it is made from the tensor itself
 * @param scaleAge steps since the scale last changed; 0 when it is made from the tensor itself
 */
public record Fp8Tensor(
        String slot,
        String layer,
        LinearTensor tensor,
        Float8Format format,
        long elements,
        long clipped,
        long underflowed,
        float amax,
        float scale,
        int historyLength,
        long scaleAge) {
    /** Share of the elements that were clipped. */
    public double clippedShare() {
        return (double) clipped / Math.max(1, elements);
    }

    /** Share of the elements that underflowed. */
    public double underflowedShare() {
        return (double) underflowed / Math.max(1, elements);
    }

    /** The largest magnitude that the scale has room for. */
    public float room() {
        return format.maxValue() * scale;
    }

    /** The same with another age of its scale. */
    Fp8Tensor withScaleAge(long age) {
        return new Fp8Tensor(
                slot, layer, tensor, format, elements, clipped, underflowed, amax, scale, historyLength, age);
    }
}
