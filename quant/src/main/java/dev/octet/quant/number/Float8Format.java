package dev.octet.quant.number;

import dev.octet.formats.tensor.DType;
import java.util.Arrays;
import java.util.Optional;

/**
 * The number formats of at most eight bits that Octet casts to and from: one row each, and exact casts of single values.
 *
 * <p>A signed format lays out sign, exponent, mantissa from the highest bit down. With {@code b} the exponent field, {@code m} the
 * mantissa field and {@code M} the number of mantissa bits, the magnitude is {@code 2^(b - bias) * (1 + m / 2^M)} for
 * {@code b > 0} and {@code 2^(1 - bias) * (m / 2^M)} for {@code b = 0} (subnormal). {@link #E8M0} has neither sign, mantissa,
 * zero nor subnormals: code {@code b} is {@code 2^(b - 127)}.
 *
 * <p>Codes are passed as {@code int} in {@code 0 .. codeCount() - 1}.
 */
public enum Float8Format {
    /** No infinity; one NaN per sign. OCP OFP8 v1.0 section 5.1; Micikevicius et al. 2022 (arXiv:2209.05433) section 3. */
    E4M3FN(DType.F8_E4M3FN, 4, 3, 7, 0x7E, 0x7F, Special.NONE, "OCP OFP8 v1.0 section 5.1"),
    /** IEEE-like, with infinities. OCP OFP8 v1.0 section 5.2; Micikevicius et al. 2022 (arXiv:2209.05433) section 3. */
    E5M2(DType.F8_E5M2, 5, 2, 15, 0x7B, 0x7E, 0x7C, "OCP OFP8 v1.0 section 5.2"),
    /** Finite, one NaN, no negative zero. Noune et al. 2022 (arXiv:2206.02915). */
    E4M3FNUZ(DType.F8_E4M3FNUZ, 4, 3, 8, 0x7F, 0x80, Special.NONE, "arXiv:2206.02915"),
    /** Finite, one NaN, no negative zero. Noune et al. 2022 (arXiv:2206.02915). */
    E5M2FNUZ(DType.F8_E5M2FNUZ, 5, 2, 16, 0x7F, 0x80, Special.NONE, "arXiv:2206.02915"),
    /** Powers of two from 2^-127 to 2^127, block scale of the MX formats. OCP MX v1.0 section 5.4.1. */
    E8M0(DType.F8_E8M0, 8, 0, 127, 0xFE, 0xFF, Special.NONE, "OCP MX v1.0 section 5.4.1"),
    /** Four bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; neither infinity nor NaN. OCP MX v1.0 section 5.3.3. */
    E2M1(DType.F4_E2M1, 2, 1, 1, 0x7, Special.NONE, Special.NONE, "OCP MX v1.0 section 5.3.3");

    /** Marks a special value that a format lacks. Its own class because enum constants cannot refer to later fields. */
    private static final class Special {
        static final int NONE = -1;
    }

    private static final int FLOAT_EXPONENT_BIAS = 127;
    private static final int FLOAT_MANTISSA_MASK = 0x7FFFFF;
    private static final int FLOAT_MANTISSA_HALF = 0x400000;

    private final DType dtype;
    private final int exponentBits;
    private final int mantissaBits;
    private final int bias;
    private final int maxCode;
    private final int nanCode;
    private final int infinityCode;
    private final String source;

    @SuppressWarnings("ImmutableEnumChecker") // filled by the constructor, then neither written nor handed out
    private final float[] values;

    Float8Format(
            DType dtype,
            int exponentBits,
            int mantissaBits,
            int bias,
            int maxCode,
            int nanCode,
            int infinityCode,
            String source) {
        this.dtype = dtype;
        this.exponentBits = exponentBits;
        this.mantissaBits = mantissaBits;
        this.bias = bias;
        this.maxCode = maxCode;
        this.nanCode = nanCode;
        this.infinityCode = infinityCode;
        this.source = source;
        this.values = new float[1 << dtype.bits()];
        for (int code = 0; code < values.length; code++) {
            values[code] = computeValue(code);
        }
    }

    /** The tensor element type with these codes. */
    public DType dtype() {
        return dtype;
    }

    /** The format whose codes a tensor of type {@code dtype} holds; empty when it is none of these. */
    public static Optional<Float8Format> of(DType dtype) {
        return Arrays.stream(values()).filter(f -> f.dtype == dtype).findFirst();
    }

    /** Width of the exponent field in bits. */
    public int exponentBits() {
        return exponentBits;
    }

    /** Width of the mantissa field in bits. */
    public int mantissaBits() {
        return mantissaBits;
    }

    /** What is subtracted from the exponent field. */
    public int bias() {
        return bias;
    }

    /** Number of codes: 256, or 16 for {@link #E2M1}. */
    public int codeCount() {
        return values.length;
    }

    /** Whether there are negative numbers: all but {@link #E8M0}. */
    public boolean isSigned() {
        return dtype != DType.F8_E8M0; // not E8M0: the constructors ask too, before the constants exist
    }

    /** Whether zero has a negative twin: no for the FNUZ pair (its code is NaN) and for {@link #E8M0} (no zero at all). */
    public boolean hasNegativeZero() {
        return isSigned() && nanCode != signBit();
    }

    /** Whether some code means NaN: all but {@link #E2M1}. */
    public boolean hasNaN() {
        return nanCode != Special.NONE;
    }

    /** Whether some code means infinity: only {@link #E5M2}. */
    public boolean hasInfinity() {
        return infinityCode != Special.NONE;
    }

    /** The code of the largest finite number. */
    public int maxCode() {
        return maxCode;
    }

    /**
     * The NaN code that casts write (positive, quiet); {@link #isNaN} recognises all NaN codes.
     *
     * @throws UnsupportedOperationException when the format has none
     */
    public int nanCode() {
        if (!hasNaN()) {
            throw new UnsupportedOperationException(this + " has no NaN");
        }
        return nanCode;
    }

    /**
     * The code of positive infinity.
     *
     * @throws UnsupportedOperationException when the format has none
     */
    public int infinityCode() {
        if (!hasInfinity()) {
            throw new UnsupportedOperationException(this + " has no infinity");
        }
        return infinityCode;
    }

    /** The highest bit of a code, which is the sign of the signed formats; 0 for {@link #E8M0}. */
    public int signBit() {
        return isSigned() ? codeCount() >> 1 : 0;
    }

    /** The largest finite number. */
    public float maxValue() {
        return values[maxCode];
    }

    /** The smallest positive normal number; for {@link #E8M0} the smallest number, 2^-127. */
    public float minNormal() {
        return this == E8M0 ? values[0] : values[1 << mantissaBits];
    }

    /** The smallest positive number: the smallest subnormal, or 2^-127 for {@link #E8M0}, which has none. */
    public float minPositive() {
        return this == E8M0 ? values[0] : values[1];
    }

    /** Exponent of the largest finite number, {@code floor(log2(maxValue()))}; OCP MX calls it emax. */
    public int maxExponent() {
        return Math.getExponent(maxValue());
    }

    /** Where the format is defined. */
    public String source() {
        return source;
    }

    /** Whether {@code code} is one of the NaN codes. */
    public boolean isNaN(int code) {
        return Float.isNaN(values[code]);
    }

    /**
     * The value of a code, exact. NaN codes give a quiet NaN with the sign of the code.
     *
     * @throws IndexOutOfBoundsException for a code outside {@code 0 .. codeCount() - 1}
     */
    public float decode(int code) {
        return values[code];
    }

    /** The values of all codes, in the order of the codes; a copy. */
    public float[] decodeTable() {
        return values.clone();
    }

    /**
     * The code nearest to {@code x}, ties to the even code.
     *
     * <p>Signed formats: the sign of zero is kept where the format has a negative zero. {@link #E2M1}, which has no NaN, follows
     * ml_dtypes: NaN becomes negative zero when saturating, else a zero with the opposite sign.
     *
     * <p>{@link #E8M0}: the significand is rounded to an integer, ties to even, so 1.5 * 2^k goes up; below 2^-126, where floats have
     * no hidden bit, everything above 2^-127 goes up to 2^-126 and the rest to 2^-127. NaN and negative numbers become NaN
     * (0xFF). Saturating (ONNX {@code Cast}, round_mode nearest), zero becomes 2^-127 and infinity or overflow 2^127; not
     * saturating, all three become NaN.
     */
    public int encode(float x, Overflow overflow) {
        return this == E8M0 ? encodeExponent(x, overflow) : encodeSigned(x, overflow);
    }

    private int encodeSigned(float x, Overflow overflow) {
        int sign = Float.floatToRawIntBits(x) < 0 ? signBit() : 0;
        if (Float.isNaN(x)) {
            return nanOf(sign, overflow);
        }
        int magnitude = roundMagnitude(Math.abs(x));
        if (magnitude > maxCode) {
            return overflowOf(sign, overflow);
        }
        return magnitude == 0 && !hasNegativeZero() ? 0 : sign | magnitude;
    }

    /**
     * Rounds to the grid of the format as if its exponents had no upper end; the result counts codes from zero. Exact: every
     * float, every power of two here and their quotient are doubles, and {@link Math#rint} breaks ties to even.
     */
    private int roundMagnitude(float magnitude) {
        int minExponent = 1 - bias;
        int exponent = Math.max(Math.getExponent(Math.min(magnitude, Float.MAX_VALUE)), minExponent);
        int stepExponent = exponent - mantissaBits;
        double steps = Math.rint(Math.scalb((double) Math.min(magnitude, Float.MAX_VALUE), -stepExponent));
        // A normal number counts its hidden one as 2^M steps, and so does the code of the exponent above minExponent:
        // sums carry from mantissa to exponent by themselves.
        return ((exponent - minExponent) << mantissaBits) + (int) steps;
    }

    private int nanOf(int sign, Overflow overflow) {
        if (!hasNaN()) {
            return overflow == Overflow.SATURATE ? signBit() : sign ^ signBit();
        }
        boolean keepsSign = overflow == Overflow.NON_SATURATING && nanCode < signBit();
        return keepsSign ? sign | nanCode : nanCode;
    }

    private int overflowOf(int sign, Overflow overflow) {
        if (overflow == Overflow.SATURATE || !hasNaN()) {
            return sign | maxCode;
        }
        return hasInfinity() ? sign | infinityCode : nanOf(sign, overflow);
    }

    private int encodeExponent(float x, Overflow overflow) {
        boolean saturate = overflow == Overflow.SATURATE;
        if (Float.isNaN(x) || x < 0) {
            return nanCode;
        }
        if (x == 0) {
            return saturate ? 0 : nanCode;
        }
        int bits = Float.floatToRawIntBits(x);
        int field = bits >>> 23;
        int mantissa = bits & FLOAT_MANTISSA_MASK;
        boolean up = mantissa > FLOAT_MANTISSA_HALF || (mantissa == FLOAT_MANTISSA_HALF && field != 0);
        int rounded = field + (up ? 1 : 0);
        if (rounded > maxCode) {
            return saturate ? maxCode : nanCode;
        }
        return rounded;
    }

    private float computeValue(int code) {
        if (!isSigned()) {
            return code == nanCode ? Float.NaN : (float) Math.scalb(1.0, code - FLOAT_EXPONENT_BIAS);
        }
        int sign = code & signBit();
        int magnitude = code ^ sign;
        float absolute = computeMagnitude(code, magnitude);
        return sign == 0 ? absolute : Math.copySign(absolute, -1f); // which signs NaN too
    }

    private float computeMagnitude(int code, int magnitude) {
        if (code == nanCode || (magnitude > maxCode && magnitude != infinityCode)) {
            return Float.NaN;
        }
        if (magnitude == infinityCode) {
            return Float.POSITIVE_INFINITY;
        }
        int field = magnitude >> mantissaBits;
        int mantissa = magnitude & ((1 << mantissaBits) - 1);
        int hidden = field == 0 ? 0 : 1 << mantissaBits;
        int exponent = Math.max(field, 1) - bias - mantissaBits;
        return (float) Math.scalb((double) (hidden + mantissa), exponent);
    }
}
