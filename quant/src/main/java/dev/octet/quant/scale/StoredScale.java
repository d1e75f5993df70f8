package dev.octet.quant.scale;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Half;
import dev.octet.quant.number.Overflow;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * Scales as they lie in a file: F32, BF16, F16 or E8M0. Values are quantised with the scale that a reader will see, so a scale is
 * rounded to its stored type before its first use.
 *
 * <p>All methods throw {@link IllegalArgumentException} for another type.
 */
public final class StoredScale {
    private StoredScale() {}

    /** Whether scales can be stored as {@code type}. */
    public static boolean isScaleType(DType type) {
        return type == DType.F32 || type == DType.BF16 || type == DType.F16 || type == DType.F8_E8M0;
    }

    /**
     * The number of {@code type} to store for {@code scale}: nearest, ties to even; for E8M0 the next power of two at or above it
     * (ONNX {@code Cast} round_mode "up"), so that rounding the scale never makes values saturate. Never NaN, infinite, zero or
     * subnormal: results beyond the normal range of {@code type} (and of F32) become its nearest end.
     *
     * @param scale positive, possibly infinite; not NaN
     */
    public static float round(float scale, DType type) {
        if (Float.isNaN(scale) || scale <= 0) {
            throw new IllegalArgumentException("scale " + scale + " is not positive");
        }
        float clamped = Math.clamp(scale, smallest(type), largest(type));
        if (type == DType.F32) {
            return clamped;
        }
        if (type == DType.F8_E8M0) {
            return PowersOfTwo.atOrAbove(clamped);
        }
        return type == DType.BF16
                ? BFloat16.toFloat(BFloat16.fromFloat(clamped))
                : Half.toFloat(Half.fromFloat(clamped));
    }

    /**
     * The number of {@code type} to store for {@code scale} where a smaller one would push values out of the range of their codes: the next at or
     * above it, as {@link #round} otherwise.
     *
     * @param scale positive, possibly infinite; not NaN
     */
    public static float roundUp(float scale, DType type) {
        float nearest = round(scale, type);
        if (nearest >= scale || nearest >= largest(type)) {
            return nearest;
        }
        return switch (type) {
            case BF16 -> BFloat16.toFloat((short) (BFloat16.fromFloat(nearest) + 1));
            case F16 -> Half.toFloat((short) (Half.fromFloat(nearest) + 1));
            default -> nearest; // F32 is the scale itself, E8M0 is rounded up already
        };
    }

    /** The smallest scale stored as {@code type}: its smallest normal number, for E8M0 2^-126 as 2^-127 is subnormal in F32. */
    public static float smallest(DType type) {
        requireScaleType(type);
        return type == DType.F16 ? Half.MIN_NORMAL : Float.MIN_NORMAL;
    }

    /** The largest scale stored as {@code type}: its largest finite number. */
    public static float largest(DType type) {
        requireScaleType(type);
        if (type == DType.F32) {
            return Float.MAX_VALUE;
        }
        if (type == DType.F16) {
            return Half.MAX_VALUE;
        }
        return type == DType.BF16 ? BFloat16.toFloat((short) 0x7F7F) : Float8Format.E8M0.maxValue();
    }

    /** Element {@code index} of a segment of scales. */
    public static float get(DType type, MemorySegment scales, long index) {
        requireScaleType(type);
        if (type == DType.F32) {
            return scales.get(Tensor.F32_LE, index * 4);
        }
        if (type == DType.F8_E8M0) {
            return Float8Format.E8M0.decode(scales.get(ValueLayout.JAVA_BYTE, index) & 0xFF);
        }
        short bits = scales.get(Tensor.I16_LE, index * 2);
        return type == DType.BF16 ? BFloat16.toFloat(bits) : Half.toFloat(bits);
    }

    /** Sets element {@code index} to {@code scale}, which must be a number of {@code type} as {@link #round} gives them. */
    public static void set(DType type, MemorySegment scales, long index, float scale) {
        requireScaleType(type);
        if (type == DType.F32) {
            scales.set(Tensor.F32_LE, index * 4, scale);
        } else if (type == DType.F8_E8M0) {
            scales.set(ValueLayout.JAVA_BYTE, index, (byte) Float8Format.E8M0.encode(scale, Overflow.SATURATE));
        } else {
            short bits = type == DType.BF16 ? BFloat16.fromFloat(scale) : Half.fromFloat(scale);
            scales.set(Tensor.I16_LE, index * 2, bits);
        }
    }

    private static void requireScaleType(DType type) {
        if (!isScaleType(type)) {
            throw new IllegalArgumentException("scales are stored as F32, BF16, F16 or F8_E8M0, not " + type);
        }
    }
}
