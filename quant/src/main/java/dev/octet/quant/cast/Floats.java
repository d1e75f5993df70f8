package dev.octet.quant.cast;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Half;
import java.lang.foreign.MemorySegment;

/** Single elements of F32, BF16 and F16 memory as {@code float}: widening is exact, narrowing rounds to nearest even. */
public final class Floats {
    private Floats() {}

    /**
     * Element {@code index} of {@code floats}.
     *
     * @throws IllegalArgumentException when {@code type} is not F32, BF16 or F16
     */
    public static float get(DType type, MemorySegment floats, long index) {
        if (type == DType.F32) {
            return floats.get(Tensor.F32_LE, index * 4);
        }
        short bits = floats.get(Tensor.I16_LE, index * Sizes.width(type));
        return type == DType.BF16 ? BFloat16.toFloat(bits) : Half.toFloat(bits);
    }

    /**
     * Sets element {@code index} of {@code floats} to the number of {@code type} nearest to {@code value}.
     *
     * @throws IllegalArgumentException when {@code type} is not F32, BF16 or F16
     */
    public static void set(DType type, MemorySegment floats, long index, float value) {
        if (type == DType.F32) {
            floats.set(Tensor.F32_LE, index * 4, value);
            return;
        }
        short bits = type == DType.BF16 ? BFloat16.fromFloat(value) : Half.fromFloat(value);
        floats.set(Tensor.I16_LE, index * Sizes.width(type), bits);
    }
}
