package dev.octet.quant.cast;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import java.util.EnumMap;
import java.util.Map;
import java.util.Objects;

/**
 * The numbers with which one branch-free formula rounds FP32 to any signed minifloat (or to F16), and the formula for one value. The
 * vector twin runs the same formula in every lane.
 *
 * <p>With {@code w} the bits of the float and {@code abs} those of its magnitude:
 *
 * <pre>
 * a    = min(abs, limit)                   integers of this kind have the order of the floats
 * m    = max(exponent bits of a, least)    2^e, not below the smallest normal: subnormals need no case of their own
 * b    = m + bounce                        the bits of 2^(e + 23 - M), M mantissa bits in the target
 * q    = bits(float(a) + float(b)) - b     the FP32 adder rounds to nearest even; counts steps of 2^(e - M)
 * code = (m >>> shift) + q - offset        q includes the hidden one; carries into the exponent come by themselves
 * </pre>
 *
 * <p>{@code limit} is the largest finite number when saturating. When not, it is the next number of the grid beyond, whose code is
 * that of infinity or NaN in every format that has one: adding one to the largest magnitude code gives it.
 *
 * @param limit bits of the float to which magnitudes are cut
 * @param least bits of the smallest normal number
 * @param bounce what brings the exponent from e to e + 23 - M
 * @param shift 23 - M
 * @param offset what the formula counts too much: the difference of the biases, and the hidden one
 * @param signShift how far right the sign of a float moves
 * @param sign the sign bit of a code
 * @param nan the code of a positive NaN
 * @param nanSign {@link #sign} when a negative NaN has the other sign, else 0
 * @param zeroSign {@link #sign} when zero has a negative twin, else 0
 * @param halfSmallest half the smallest positive number, the largest that rounds to zero
 */
record Rounding(
        int limit,
        int least,
        int bounce,
        int shift,
        int offset,
        int signShift,
        int sign,
        int nan,
        int nanSign,
        int zeroSign,
        float halfSmallest) {
    static final int MAGNITUDE = 0x7FFFFFFF;
    static final int EXPONENT = 0x7F800000;

    private static final int FLOAT_MANTISSA_BITS = 23;
    private static final int FLOAT_BIAS = 127;

    /** To F16, overflow to infinity. 65536 is the number beyond the largest, and 0x7C00, infinity, its code. */
    static final Rounding TO_HALF = of(5, 10, 15, 65536f, 0x8000, 0x7E00, 0x8000, 0x8000);

    private static final Map<Overflow, Map<Float8Format, Rounding>> ALL = all();

    private static Map<Overflow, Map<Float8Format, Rounding>> all() {
        Map<Overflow, Map<Float8Format, Rounding>> all = new EnumMap<>(Overflow.class);
        for (Overflow overflow : Overflow.values()) {
            Map<Float8Format, Rounding> byFormat = new EnumMap<>(Float8Format.class);
            for (Float8Format format : Float8Format.values()) {
                if (format.isSigned()) {
                    byFormat.put(format, of(format, overflow));
                }
            }
            all.put(overflow, byFormat);
        }
        return all;
    }

    /** The numbers for a format; not for {@link Float8Format#E8M0}. */
    static Rounding to(Float8Format format, Overflow overflow) {
        return Objects.requireNonNull(Objects.requireNonNull(ALL.get(overflow)).get(format));
    }

    private static Rounding of(Float8Format format, Overflow overflow) {
        boolean cut = overflow == Overflow.SATURATE || !format.hasNaN();
        float step = format.maxValue() - format.decode(format.maxCode() - 1);
        float limit = cut ? format.maxValue() : format.maxValue() + step;
        int sign = format.signBit();
        int nan = format.encode(Float.NaN, overflow);
        int negativeNan = format.encode(Float.intBitsToFloat(0xFFC00000), overflow);
        return of(
                format.exponentBits(),
                format.mantissaBits(),
                format.bias(),
                limit,
                sign,
                nan,
                nan ^ negativeNan,
                format.hasNegativeZero() ? sign : 0);
    }

    private static Rounding of(
            int exponentBits, int mantissaBits, int bias, float limit, int sign, int nan, int nanSign, int zeroSign) {
        int shift = FLOAT_MANTISSA_BITS - mantissaBits;
        int exponentOffset = (FLOAT_BIAS - bias) << mantissaBits;
        int hiddenOne = 1 << mantissaBits;
        return new Rounding(
                Float.floatToRawIntBits(limit),
                (FLOAT_BIAS + 1 - bias) << FLOAT_MANTISSA_BITS,
                shift << FLOAT_MANTISSA_BITS,
                shift,
                exponentOffset + hiddenOne,
                31 - exponentBits - mantissaBits,
                sign,
                nan,
                nanSign,
                zeroSign,
                Math.scalb(1f, -bias - mantissaBits));
    }

    /** The code of {@code x}. */
    int encode(float x) {
        int w = Float.floatToRawIntBits(x);
        int abs = w & MAGNITUDE;
        int signed = (w >>> signShift) & sign;
        if (abs > EXPONENT) {
            return nan ^ (signed & nanSign);
        }
        int a = Math.min(abs, limit);
        int m = Math.max(a & EXPONENT, least);
        int b = m + bounce;
        int q = Float.floatToRawIntBits(Float.intBitsToFloat(a) + Float.intBitsToFloat(b)) - b;
        int magnitude = (m >>> shift) + q - offset;
        return magnitude | (magnitude == 0 ? signed & zeroSign : signed);
    }
}
