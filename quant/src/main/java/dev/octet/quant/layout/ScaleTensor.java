package dev.octet.quant.layout;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.TensorSpec;

/**
 * Scales as they lie in a checkpoint.
 *
 * @param spec name, element type and shape in the file; row-major, its elements are in the order of the blocks of the weight, whatever
 *     shape the layout gives them ({@code [out]}, {@code [out, 1]}, {@code [rows, 1, cols, 1]} hold the same numbers)
 * @param number what an element is: F32, BF16, F16, F8_E8M0 or F8_E4M3FN. Differs from {@code spec.dtype()} only where E8M0 is stored as
 *     U8
 * @param direction whether dequantising multiplies or divides
 */
public record ScaleTensor(TensorSpec spec, DType number, Direction direction) {
    /** What dequantising does with a stored scale. */
    public enum Direction {
        /** {@code real = code * scale}. */
        MULTIPLIER,
        /** {@code real = code / scale}: the second level of NVFP4 in compressed-tensors. */
        DIVISOR
    }

    /** A multiplier whose elements are what their type says. */
    public static ScaleTensor multiplier(TensorSpec spec) {
        return new ScaleTensor(spec, spec.dtype(), Direction.MULTIPLIER);
    }

    /** Its name in the file. */
    public String name() {
        return spec.name();
    }
}
