package dev.octet.quant.cast;

import dev.octet.quant.number.Float8Format;
import java.util.EnumMap;
import java.util.Map;
import java.util.Objects;

/**
 * The numbers with which one branch-free formula widens the codes of any signed minifloat to FP32.
 *
 * <p>With {@code mag} the code without its sign: a normal number is {@code (mag << shift) + rebias} as the bits of a float; a
 * subnormal one, {@code mag < firstNormal}, is {@code float(magic | mag) - float(magic)}, {@code magic} being the power of two whose last
 * mantissa bit is worth one subnormal step. (Multiplying {@code mag << shift} by a power of two would do both at once, but as subnormal
 * floats the small codes cost some hundred cycles on many processors.) NaN codes are those with
 * {@code (code + nanAdd) & nanMask >= firstNan}; the code of infinity is {@code infinity}.
 *
 * @param sign the sign bit of a code
 * @param signShift how far left it moves
 * @param shift 23 - M, M mantissa bits
 * @param rebias the difference of the biases, in the exponent field
 * @param firstNormal the smallest code of a normal number
 * @param magic bits of the power of two
 * @param infinity the code of infinity, or more than any code
 * @param nanAdd 0, or what brings the one NaN of the FNUZ formats to 0xFF
 * @param nanMask which bits of the code tell a NaN
 * @param firstNan the smallest NaN, or more than any code
 */
record WideningConstants(
        int sign,
        int signShift,
        int shift,
        int rebias,
        int firstNormal,
        int magic,
        int infinity,
        int nanAdd,
        int nanMask,
        int firstNan) {
    private static final int FLOAT_MANTISSA_BITS = 23;
    private static final int FLOAT_BIAS = 127;
    private static final int NO_CODE = 0x100;
    private static final Map<Float8Format, WideningConstants> ALL = all();

    private static Map<Float8Format, WideningConstants> all() {
        Map<Float8Format, WideningConstants> all = new EnumMap<>(Float8Format.class);
        for (Float8Format format : Float8Format.values()) {
            if (format.isSigned()) {
                all.put(format, of(format));
            }
        }
        return all;
    }

    /** The numbers for a format; not for {@link Float8Format#E8M0}. */
    static WideningConstants from(Float8Format format) {
        return Objects.requireNonNull(ALL.get(format));
    }

    private static WideningConstants of(Float8Format format) {
        int mantissaBits = format.mantissaBits();
        boolean nanIsNegativeZero = !format.hasNegativeZero();
        int firstNan = format.hasInfinity() ? format.infinityCode() + 1 : format.maxCode() + 1;
        return new WideningConstants(
                format.signBit(),
                31 - format.exponentBits() - mantissaBits,
                FLOAT_MANTISSA_BITS - mantissaBits,
                (FLOAT_BIAS - format.bias()) << FLOAT_MANTISSA_BITS,
                1 << mantissaBits,
                Float.floatToRawIntBits(format.minPositive() * (1 << FLOAT_MANTISSA_BITS)),
                format.hasInfinity() ? format.infinityCode() : NO_CODE,
                nanIsNegativeZero ? format.signBit() - 1 : 0,
                nanIsNegativeZero ? 0xFF : format.signBit() - 1,
                nanIsNegativeZero ? 0xFF : format.hasNaN() ? firstNan : NO_CODE);
    }
}
