package dev.octet.quant.cast;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Half;
import java.lang.foreign.MemorySegment;

/** Single elements of F32, BF16 and F16 memory as {@code float}: widening is exact, narrowing rounds to nearest even. */
public final class Floats {
    /** Elements at once: what the nearest cache holds. */
    private static final int CHUNK = 1 << 12;

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

    /**
     * Brings {@code count} elements from one type to another, as {@link #get} and {@link #set} do.
     *
     * @param to may be what {@code from} is
     * @throws IllegalArgumentException when a type is not F32, BF16 or F16
     */
    public static void convert(DType fromType, MemorySegment from, DType toType, MemorySegment to, long count) {
        if (toType != DType.F32 || fromType == DType.F32) {
            for (long i = 0; i < count; i++) {
                set(toType, to, i, get(fromType, from, i));
            }
            return;
        }
        boolean pairs = fromType == DType.BF16;
        Sizes.width(fromType);
        int chunk = (int) Math.min(count, CHUNK);
        int[] two = new int[pairs ? chunk / 2 : 0];
        int[] bits = new int[two.length * 2];
        short[] halves = new short[pairs ? 0 : chunk];
        float[] values = new float[halves.length];
        for (long first = 0; first < count; first += CHUNK) {
            int n = (int) Math.min(CHUNK, count - first);
            if (pairs) {
                MemorySegment.copy(from, Tensor.I32_LE, first * Short.BYTES, two, 0, n / 2);
                widenBf16(two, bits, n / 2);
                MemorySegment.copy(bits, 0, to, Tensor.I32_LE, first * Float.BYTES, n / 2 * 2);
            } else {
                MemorySegment.copy(from, Tensor.I16_LE, first * Short.BYTES, halves, 0, n);
                widenF16(halves, values, n);
                MemorySegment.copy(values, 0, to, Tensor.F32_LE, first * Float.BYTES, n);
            }
        }
        if (pairs && count % 2 != 0) {
            set(toType, to, count - 1, get(fromType, from, count - 1));
        }
    }

    /**
     * The bits of BF16 as those of F32.
     *
     * @param pairs of BF16, the first in the lower half: a loop over {@code short} would take twice as long, as the compiler makes no vectors of it
     * @param bits twice as many
     * @param n pairs
     */
    public static void widenBf16(int[] pairs, int[] bits, int n) {
        for (int i = 0; i < n; i++) {
            bits[2 * i] = pairs[i] << 16;
            bits[2 * i + 1] = pairs[i] & 0xFFFF0000;
        }
    }

    private static void widenF16(short[] halves, float[] values, int n) {
        for (int i = 0; i < n; i++) {
            values[i] = Float.float16ToFloat(halves[i]);
        }
    }
}
