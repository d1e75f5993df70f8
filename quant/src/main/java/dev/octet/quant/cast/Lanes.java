package dev.octet.quant.cast;

import java.lang.foreign.MemorySegment;
import java.nio.ByteOrder;
import jdk.incubator.vector.ByteVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;

/**
 * What all kernels on the Vector API are made of: loading a vector of floats or codes from memory, the formulas of {@link Rounding} and
 * {@link WideningConstants} in every lane, and storing. All small enough to be inlined, so no vector is ever an object.
 */
final class Lanes {
    static final VectorSpecies<Integer> INT = IntVector.SPECIES_PREFERRED;
    static final int LANES = INT.length();
    // As many lanes as INT, so that conversions need no parts.
    static final VectorSpecies<Float> FLOAT = INT.withLanes(float.class);
    static final VectorSpecies<Short> SHORT = VectorSpecies.of(short.class, shapeOf(INT.vectorBitSize() / 2));
    static final VectorSpecies<Byte> BYTE = VectorSpecies.of(byte.class, shapeOf(INT.vectorBitSize() / 4));
    static final VectorSpecies<Short> WIDE_SHORT = ShortVector.SPECIES_PREFERRED;
    static final ByteOrder LE = ByteOrder.LITTLE_ENDIAN;

    static final int HALF_MAGNITUDE = 0x7FFF;
    static final int HALF_SIGN = 0x8000;
    static final int HALF_INFINITY = 0x7C00;
    static final int HALF_MIN_NORMAL = 0x0400;
    static final int HALF_SHIFT = 23 - 10;
    static final int HALF_REBIAS = (127 - 15) << 23;
    /** 0.5f, whose last mantissa bit is worth 2^-24, the smallest F16. */
    static final int HALF_MAGIC = 0x3F000000;

    static final int QUIET_NAN = 0x7FC00000;

    private Lanes() {}

    private static VectorShape shapeOf(int bits) {
        return VectorShape.forBitSize(Math.max(64, bits));
    }

    /** The formula of {@link Rounding} for formats with a negative zero; codes in the low bits of the lanes. */
    static IntVector round(FloatVector x, Rounding r) {
        IntVector w = x.reinterpretAsInts();
        IntVector abs = w.and(Rounding.MAGNITUDE);
        IntVector a = abs.min(r.limit());
        IntVector m = a.and(Rounding.EXPONENT).max(r.least());
        IntVector b = m.add(r.bounce());
        IntVector q = a.reinterpretAsFloats()
                .add(b.reinterpretAsFloats())
                .reinterpretAsInts()
                .sub(b);
        IntVector magnitude = m.lanewise(VectorOperators.LSHR, r.shift()).add(q).sub(r.offset());
        IntVector signed = w.lanewise(VectorOperators.LSHR, r.signShift()).and(r.sign());
        IntVector nan = signed.and(r.nanSign()).lanewise(VectorOperators.XOR, r.nan());
        return magnitude.or(signed).blend(nan, abs.compare(VectorOperators.GT, Rounding.EXPONENT));
    }

    /**
     * The same for formats without: there a negative zero becomes a positive one. Before rounding these are the magnitudes up to half the
     * smallest number, so the float is made positive and the formula does the rest.
     */
    static IntVector roundWithoutNegativeZero(FloatVector x, Rounding r) {
        FloatVector magnitude = x.abs();
        // NaN compares false and keeps its sign, which its code has not.
        return round(x.blend(magnitude, magnitude.compare(VectorOperators.LE, r.halfSmallest())), r);
    }

    /** The formula of {@link WideningConstants}. */
    static FloatVector expand(IntVector code, WideningConstants e) {
        IntVector sign = code.and(e.sign());
        IntVector mag = code.lanewise(VectorOperators.XOR, sign);
        IntVector normal = mag.lanewise(VectorOperators.LSHL, e.shift()).add(e.rebias());
        IntVector subnormal = mag.or(e.magic())
                .reinterpretAsFloats()
                .sub(Float.intBitsToFloat(e.magic()))
                .reinterpretAsInts();
        IntVector nanKey = code.add(e.nanAdd()).and(e.nanMask());
        return normal.blend(subnormal, mag.compare(VectorOperators.LT, e.firstNormal()))
                .blend(Rounding.EXPONENT, mag.compare(VectorOperators.EQ, e.infinity()))
                .blend(QUIET_NAN, nanKey.compare(VectorOperators.GE, e.firstNan()))
                .or(sign.lanewise(VectorOperators.LSHL, e.signShift()))
                .reinterpretAsFloats();
    }

    static FloatVector f32(MemorySegment in, int i) {
        return FloatVector.fromMemorySegment(FLOAT, in, (long) i * Float.BYTES, LE);
    }

    /** Scales to divide by: infinity for zero, as {@link Sizes#divisor}. */
    static FloatVector divisors(MemorySegment scales, int i) {
        FloatVector by = f32(scales, i);
        return by.blend(Float.POSITIVE_INFINITY, by.compare(VectorOperators.EQ, 0));
    }

    static IntVector ints(MemorySegment in, int i) {
        return IntVector.fromMemorySegment(INT, in, (long) i * Integer.BYTES, LE);
    }

    static ShortVector shorts(MemorySegment in, int i) {
        return ShortVector.fromMemorySegment(WIDE_SHORT, in, (long) i * Short.BYTES, LE);
    }

    static IntVector widenedShorts(MemorySegment in, int i) {
        ShortVector narrow = ShortVector.fromMemorySegment(SHORT, in, (long) i * Short.BYTES, LE);
        return (IntVector) narrow.convertShape(VectorOperators.ZERO_EXTEND_S2I, INT, 0);
    }

    static FloatVector bf16(MemorySegment in, int i) {
        return widenedShorts(in, i).lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats();
    }

    /** Widens F16 by integer shifts; there is no vector of F16. As in {@link WideningConstants}, no float on the way is subnormal. */
    static FloatVector f16(MemorySegment in, int i) {
        IntVector bits = widenedShorts(in, i);
        IntVector mag = bits.and(HALF_MAGNITUDE);
        IntVector normal = mag.lanewise(VectorOperators.LSHL, HALF_SHIFT).add(HALF_REBIAS);
        IntVector subnormal = mag.or(HALF_MAGIC)
                .reinterpretAsFloats()
                .sub(Float.intBitsToFloat(HALF_MAGIC))
                .reinterpretAsInts();
        VectorMask<Integer> special = mag.compare(VectorOperators.GE, HALF_INFINITY);
        return normal.blend(subnormal, mag.compare(VectorOperators.LT, HALF_MIN_NORMAL))
                .or(IntVector.zero(INT).blend(Rounding.EXPONENT, special))
                .or(bits.and(HALF_SIGN).lanewise(VectorOperators.LSHL, 16))
                .reinterpretAsFloats();
    }

    static IntVector codes(MemorySegment in, int i) {
        return (IntVector)
                ByteVector.fromMemorySegment(BYTE, in, i, LE).convertShape(VectorOperators.ZERO_EXTEND_B2I, INT, 0);
    }

    static void store(IntVector codes, MemorySegment out, int i) {
        ((ByteVector) codes.convertShape(VectorOperators.I2B, BYTE, 0)).intoMemorySegment(out, i, LE);
    }

    static void storeF32(FloatVector x, MemorySegment out, int i) {
        x.intoMemorySegment(out, (long) i * Float.BYTES, LE);
    }

    /** Narrows by adding half of the last kept bit. NaNs from {@link #expand} have no payload that could carry over. */
    static void storeBf16(FloatVector x, MemorySegment out, int i) {
        IntVector w = x.reinterpretAsInts();
        IntVector lastKept = w.lanewise(VectorOperators.LSHR, 16).and(1);
        storeShorts(w.add(0x7FFF).add(lastKept).lanewise(VectorOperators.LSHR, 16), out, i);
    }

    static void storeF16(FloatVector x, MemorySegment out, int i) {
        storeShorts(round(x, Rounding.TO_HALF), out, i);
    }

    static void storeShorts(IntVector bits, MemorySegment out, int i) {
        ((ShortVector) bits.convertShape(VectorOperators.I2S, SHORT, 0))
                .intoMemorySegment(out, (long) i * Short.BYTES, LE);
    }
}
