package dev.octet.quant.scale;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Half;
import dev.octet.quant.number.Overflow;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * Many scales at once between the numbers that files hold and F32, and what a conversion did to them. One scale, rounded before its
 * first use, is {@link StoredScale}'s business.
 *
 * <p>Numbers are F32, BF16, F16, E8M0 (typed F8_E8M0 or, as compressed-tensors and ModelOpt store it, U8) and E4M3FN, which stands
 * under one F32 for the whole tensor: {@link #multiply} or {@link #divide} bring that in or take it out.
 *
 * <p>Memory is little-endian, any alignment. All methods throw {@link IllegalArgumentException} for another type or when a segment is too
 * short.
 */
public final class ScaleNumbers {
    private static final float[] E4M3 = Float8Format.E4M3FN.decodeTable();
    private static final float[] E8M0 = Float8Format.E8M0.decodeTable();

    private ScaleNumbers() {}

    /** Whether scales may be stored as {@code number}. */
    public static boolean isNumber(DType number) {
        return StoredScale.isScaleType(number) || number == DType.U8 || number == DType.F8_E4M3FN;
    }

    /**
     * Widens scales; exact, whatever they are: zero, negative and NaN stay what they were.
     *
     * @param stored {@code count} scales of type {@code number}
     * @param f32 takes {@code count} F32
     */
    public static void read(DType number, MemorySegment stored, long count, MemorySegment f32) {
        requireSizes(number, stored, count, f32);
        switch (number) {
            case F32 -> MemorySegment.copy(stored, 0, f32, 0, count * Float.BYTES);
            case BF16 -> {
                for (long i = 0; i < count; i++) {
                    f32.set(Tensor.F32_LE, i * Float.BYTES, BFloat16.toFloat(stored.get(Tensor.I16_LE, i * 2)));
                }
            }
            case F16 -> {
                for (long i = 0; i < count; i++) {
                    f32.set(Tensor.F32_LE, i * Float.BYTES, Half.toFloat(stored.get(Tensor.I16_LE, i * 2)));
                }
            }
            case U8, F8_E8M0 -> widen(E8M0, stored, count, f32);
            case F8_E4M3FN -> widen(E4M3, stored, count, f32);
            default -> throw notANumber(number);
        }
    }

    private static void widen(float[] values, MemorySegment stored, long count, MemorySegment f32) {
        for (long i = 0; i < count; i++) {
            f32.set(Tensor.F32_LE, i * Float.BYTES, values[stored.get(ValueLayout.JAVA_BYTE, i) & 0xFF]);
        }
    }

    /**
     * Narrows scales to the nearest number, ties to even; E8M0 to the next power of two at or above, as {@link StoredScale#round}. A scale
     * that is a number of the type already, zero included, is stored as it is. No other becomes zero, infinite or NaN: it becomes the
     * nearest end of the range, for E4M3FN 2^-9 (the smallest subnormal; ModelOpt clamps there too) and 448.
     *
     * @param f32 {@code count} F32, finite and at least zero
     * @param stored takes {@code count} scales of type {@code number}
     * @return whether every scale was such a number, so that {@link #read} gives the same bits back
     * @throws IllegalArgumentException when a scale is negative, infinite or NaN and {@code number} is not F32, where scales
     *     are only copied
     */
    public static boolean write(DType number, MemorySegment f32, long count, MemorySegment stored) {
        requireSizes(number, stored, count, f32);
        if (number == DType.F32) {
            MemorySegment.copy(f32, 0, stored, 0, count * Float.BYTES);
            return true;
        }
        if (number == DType.F8_E4M3FN) {
            ElementCast.best()
                    .encode(
                            DType.F32,
                            f32.asSlice(0, count * Float.BYTES),
                            1,
                            Float8Format.E4M3FN,
                            Overflow.SATURATE,
                            stored.asSlice(0, count));
        }
        boolean exact = true;
        for (long i = 0; i < count; i++) {
            float scale = f32.get(Tensor.F32_LE, i * Float.BYTES);
            if (!(scale >= 0 && scale < Float.POSITIVE_INFINITY)) {
                throw new IllegalArgumentException("scale " + i + " is " + scale + ", not finite and at least zero");
            }
            exact &= writeOne(number, scale, stored, i);
        }
        return exact;
    }

    private static boolean writeOne(DType number, float scale, MemorySegment stored, long i) {
        return switch (number) {
            case BF16 -> {
                short bits = nearestHalf(scale, BFloat16.fromFloat(scale), (short) 0x0001, (short) 0x7F7F);
                stored.set(Tensor.I16_LE, i * 2, bits);
                yield same(BFloat16.toFloat(bits), scale);
            }
            case F16 -> {
                short bits = nearestHalf(scale, Half.fromFloat(scale), (short) 0x0001, (short) 0x7BFF);
                stored.set(Tensor.I16_LE, i * 2, bits);
                yield same(Half.toFloat(bits), scale);
            }
            case F8_E4M3FN -> {
                int code = stored.get(ValueLayout.JAVA_BYTE, i) & 0xFF; // all were encoded at once
                if (code == 0 && scale > 0) {
                    stored.set(ValueLayout.JAVA_BYTE, i, (byte) 1);
                }
                yield same(E4M3[code], scale);
            }
            case U8, F8_E8M0 -> {
                int code = exponentAtOrAbove(scale);
                stored.set(ValueLayout.JAVA_BYTE, i, (byte) code);
                yield same(E8M0[code], scale);
            }
            default -> throw notANumber(number);
        };
    }

    /** Keeps a rounding from giving zero or infinity. */
    private static short nearestHalf(float scale, short rounded, short smallest, short largest) {
        if (rounded == 0 && scale > 0) {
            return smallest;
        }
        return rounded > largest ? largest : rounded;
    }

    /** The E8M0 code of the smallest power of two at or above; 2^-127 and 2^127 are the ends. */
    private static int exponentAtOrAbove(float scale) {
        int bits = Float.floatToRawIntBits(scale);
        if (bits <= 0x00400000) {
            return 0; // 2^-127, half of the smallest normal number
        }
        int field = bits >>> 23;
        int up = (bits & 0x7FFFFF) != 0 ? 1 : 0;
        return Math.min(field + up, Float8Format.E8M0.maxCode());
    }

    private static boolean same(float stored, float scale) {
        return Float.floatToRawIntBits(stored) == Float.floatToRawIntBits(scale);
    }

    /**
     * Multiplies scales in place, rounding to FP32: block scales of ModelOpt's NVFP4 with {@code weight_scale_2}.
     *
     * @return whether no product was rounded
     */
    public static boolean multiply(MemorySegment f32, long count, float factor) {
        requireSizes(DType.F32, f32, count, f32);
        boolean exact = true;
        for (long i = 0; i < count; i++) {
            float scale = f32.get(Tensor.F32_LE, i * Float.BYTES);
            float product = scale * factor;
            f32.set(Tensor.F32_LE, i * Float.BYTES, product);
            exact &= (double) scale * factor == product; // two floats' product is a double
        }
        return exact;
    }

    /**
     * Divides scales in place, rounding to FP32: block scales of compressed-tensors' NVFP4 by {@code weight_global_scale}.
     *
     * @return whether no quotient was rounded
     */
    public static boolean divide(MemorySegment f32, long count, float divisor) {
        requireSizes(DType.F32, f32, count, f32);
        boolean exact = true;
        for (long i = 0; i < count; i++) {
            float scale = f32.get(Tensor.F32_LE, i * Float.BYTES);
            float quotient = scale / divisor;
            f32.set(Tensor.F32_LE, i * Float.BYTES, quotient);
            exact &= (double) quotient * divisor == scale;
        }
        return exact;
    }

    /** Index of the first scale that is not positive and finite, or -1: codes cannot be made with it, and files should not hold it. */
    public static long firstUnusable(MemorySegment f32, long count) {
        requireSizes(DType.F32, f32, count, f32);
        for (long i = 0; i < count; i++) {
            float scale = f32.get(Tensor.F32_LE, i * Float.BYTES);
            if (!(scale > 0 && scale < Float.POSITIVE_INFINITY)) {
                return i;
            }
        }
        return -1;
    }

    private static void requireSizes(DType number, MemorySegment stored, long count, MemorySegment f32) {
        if (!isNumber(number)) {
            throw notANumber(number);
        }
        long bytes = Math.multiplyExact(count, number.bits() / 8L);
        if (count < 0 || stored.byteSize() < bytes || f32.byteSize() < Math.multiplyExact(count, 4L)) {
            throw new IllegalArgumentException(count + " scales of " + number + " in " + stored.byteSize()
                    + " bytes and " + f32.byteSize() + " bytes of F32");
        }
    }

    private static IllegalArgumentException notANumber(DType number) {
        return new IllegalArgumentException(
                "scales are stored as F32, BF16, F16, F8_E8M0, U8 or F8_E4M3FN, not " + number);
    }
}
