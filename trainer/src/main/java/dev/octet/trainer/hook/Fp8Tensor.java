package dev.octet.trainer.hook;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.LinearTensor;
import java.util.Locale;

/**
 * How well a tensor fitted its FP8 codes in one step, over all micro-batches and products.
 *
 * @param slot name of its scale: {@code fp8.NODE.input}, {@code fp8.WEIGHT.weight} or {@code fp8.NODE.grad_output}
 * @param layer module of the first Linear that casts it: {@code model.layers.0.mlp.up_proj}
 * @param tensor which operand of the Linear it is
 * @param format FP8 format of the codes
 * @param elements number of elements cast
 * @param clipped number of elements that exceeded the format's largest number after scaling and rounding, and were set to it
 * @param underflowed number of nonzero elements that became 0
 * @param amax largest magnitude before the cast, ignoring NaN
 * @param scale dequantisation multiplier of the last cast; the largest if rows or blocks have separate scales
 * @param historyLength number of amaxes that the scale is computed from; 0 when it is computed from the tensor itself
 * @param scaleAge steps since the scale last changed; 0 when it is computed from the tensor itself
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
    /** What it is called in messages and files: the module and the operand, {@code model.layers.0.mlp.up_proj.input}. */
    public String name() {
        return layer + "." + tensor.name().toLowerCase(Locale.ROOT);
    }

    /** Share of clipped elements. */
    public double clippedShare() {
        return (double) clipped / Math.max(1, elements);
    }

    /** Share of underflowed elements. */
    public double underflowedShare() {
        return (double) underflowed / Math.max(1, elements);
    }

    /** The largest magnitude that the scale can represent. */
    public float room() {
        return format.maxValue() * scale;
    }

    /** This tensor with another scale age. */
    Fp8Tensor withScaleAge(long age) {
        return new Fp8Tensor(
                slot, layer, tensor, format, elements, clipped, underflowed, amax, scale, historyLength, age);
    }
}
