package dev.octet.converter.verify;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Half;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * What is known of the values of one tensor of scales; collected piece by piece. Counts are of elements.
 */
final class ScaleFacts {
    /** Within these, a scale is believed: weights from 2^-60 to 2^60 in any format have theirs inside. */
    private static final double SMALLEST_BELIEVED = 0x1p-80;

    private static final double LARGEST_BELIEVED = 0x1p60;

    private static final long MANTISSA = (1L << 52) - 1;

    private final DType dtype;
    private long count;
    private long nan;
    private long infinite;
    private long zero;
    private long negative;
    private long subnormal;
    private long absurd;
    private long odd;
    private long ones;
    private double min = Double.POSITIVE_INFINITY;
    private double max = Double.NEGATIVE_INFINITY;
    private double log2Sum;

    /** For scales stored as {@code dtype}; U8 are codes of E8M0. */
    ScaleFacts(DType dtype) {
        this.dtype = dtype;
    }

    /** Whether scales of this type can be read. */
    static boolean readable(DType dtype) {
        return switch (dtype) {
            case F64, F32, BF16, F16, U8, F8_E8M0, F8_E4M3FN -> true;
            default -> false;
        };
    }

    /** Adds all whole elements of {@code bytes}. */
    void add(MemorySegment bytes) {
        long n = bytes.byteSize() * 8 / dtype.bits();
        for (long i = 0; i < n; i++) {
            add(value(dtype, bytes, i));
        }
    }

    private void add(double x) {
        count++;
        if (Double.isNaN(x)) {
            nan++;
            return;
        }
        if (Double.isInfinite(x)) {
            infinite++;
            return;
        }
        min = Math.min(min, x);
        max = Math.max(max, x);
        if (x == 0) {
            zero++;
            return;
        }
        if (x < 0) {
            negative++;
            return;
        }
        log2Sum += log2(x);
        if (x == 1) {
            ones++;
        }
        if (x < smallestNormal()) {
            subnormal++;
        } else if ((x < SMALLEST_BELIEVED && dtype.bits() > 8)
                || x > LARGEST_BELIEVED) { // code 0 of E8M0: a block of zeros
            absurd++;
        }
        if ((Double.doubleToRawLongBits(x) & MANTISSA) != 0) {
            odd++;
        }
    }

    /** Within 0.09: a straight line between powers of two; there are millions of scales to take it of. */
    private static double log2(double x) {
        int exponent = Math.getExponent(x);
        return exponent + Math.scalb(x, -exponent) - 1;
    }

    private double smallestNormal() {
        return switch (dtype) {
            case F64 -> Double.MIN_NORMAL;
            case F16 -> Half.MIN_NORMAL;
            case F32, BF16 -> Float.MIN_NORMAL;
            default -> 0; // the formats of eight bits use their subnormals as well as the rest
        };
    }

    /** Element {@code index}; U8 is taken for E8M0. */
    static double value(DType dtype, MemorySegment bytes, long index) {
        return switch (dtype) {
            case F64 -> bytes.get(Tensor.F64_LE, index * Double.BYTES);
            case F32 -> bytes.get(Tensor.F32_LE, index * Float.BYTES);
            case BF16 -> BFloat16.toFloat(bytes.get(Tensor.I16_LE, index * Short.BYTES));
            case F16 -> Half.toFloat(bytes.get(Tensor.I16_LE, index * Short.BYTES));
            case U8, F8_E8M0 -> Float8Format.E8M0.decode(bytes.get(ValueLayout.JAVA_BYTE, index) & 0xFF);
            case F8_E4M3FN -> Float8Format.E4M3FN.decode(bytes.get(ValueLayout.JAVA_BYTE, index) & 0xFF);
            default -> throw new IllegalArgumentException("scales of type " + dtype);
        };
    }

    long count() {
        return count;
    }

    long nan() {
        return nan;
    }

    long infinite() {
        return infinite;
    }

    long zero() {
        return zero;
    }

    long negative() {
        return negative;
    }

    /** Below the smallest normal number of their type, not counting the 8-bit types. */
    long subnormal() {
        return subnormal;
    }

    /** Normal, but beyond what any weight needs. */
    long absurd() {
        return absurd;
    }

    /** Positive and no power of two. */
    long notPowersOfTwo() {
        return odd;
    }

    /** Whether every one is exactly 1. */
    boolean allOne() {
        return count > 0 && ones == count;
    }

    /** The smallest finite scale; infinity when all are not finite. */
    double min() {
        return min;
    }

    /** The largest finite scale; minus infinity when all are not finite. */
    double max() {
        return max;
    }

    /** Geometric mean of the positive scales, to a few percent; NaN when none is positive. */
    double typical() {
        long positive = count - nan - infinite - zero - negative;
        return positive == 0 ? Double.NaN : Math.pow(2, log2Sum / positive);
    }

    /** Whether all are finite and above zero. */
    boolean sound() {
        return count > 0 && nan + infinite + zero + negative == 0;
    }
}
