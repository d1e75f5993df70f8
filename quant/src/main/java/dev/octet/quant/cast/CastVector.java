package dev.octet.quant.cast;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Half;
import dev.octet.quant.number.Minifloat;
import dev.octet.quant.number.Overflow;
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
 * The twin on the Vector API, for the preferred vector width of the machine when that is 256 bits or more. Loading this class needs the
 * module {@code jdk.incubator.vector}; {@link Cast#best()} looks first.
 *
 * <p>How it is built, and why:
 *
 * <ul>
 *   <li>Kernels are small static methods with an {@code int} index over at most {@link #TILE} elements, called many times: they are
 *       compiled as whole methods and their bounds checks leave the loop. One call over a whole tensor would run code compiled for
 *       replacement on the stack, and a {@code long} index keeps the checks.
 *   <li>A run's last incomplete vector is done as a whole one that overlaps its predecessor; runs shorter than a vector go through
 *       {@link CastScalar}, whose formula is the same.
 *   <li>Loops are not unrolled by hand: four vectors at a time ran at a third of the speed, for want of registers.
 *   <li>Scales are divided by, not multiplied with: with 512-bit vectors division costs BF16 input some 10 % in cache and nothing from
 *       memory.
 * </ul>
 */
public final class CastVector implements Cast {
    /** Elements per call of a kernel. A multiple of every vector length. */
    static final int TILE = 1 << 14;

    private static final VectorSpecies<Integer> INT = IntVector.SPECIES_PREFERRED;
    private static final int LANES = INT.length();
    // As many lanes as INT, so that conversions need no parts.
    private static final VectorSpecies<Float> FLOAT = INT.withLanes(float.class);
    private static final VectorSpecies<Short> SHORT = VectorSpecies.of(short.class, shapeOf(INT.vectorBitSize() / 2));
    private static final VectorSpecies<Byte> BYTE = VectorSpecies.of(byte.class, shapeOf(INT.vectorBitSize() / 4));
    private static final VectorSpecies<Short> WIDE_SHORT = ShortVector.SPECIES_PREFERRED;
    private static final ByteOrder LE = ByteOrder.LITTLE_ENDIAN;

    private static final int HALF_MAGNITUDE = 0x7FFF;
    private static final int HALF_SIGN = 0x8000;
    private static final int HALF_INFINITY = 0x7C00;
    private static final int HALF_MIN_NORMAL = 0x0400;
    private static final int HALF_SHIFT = 23 - 10;
    private static final int HALF_REBIAS = (127 - 15) << 23;
    /** 0.5f, whose last mantissa bit is worth 2^-24, the smallest F16. */
    private static final int HALF_MAGIC = 0x3F000000;

    private static final int QUIET_NAN = 0x7FC00000;

    private final CastScalar scalar = new CastScalar();

    /** A vector twin; it has no state. */
    public CastVector() {}

    /** Whether vectors of this machine are wide enough: below 256 bits the bytes of one vector of ints fill no vector. */
    static boolean fits() {
        return INT.vectorBitSize() >= 256;
    }

    private static VectorShape shapeOf(int bits) {
        return VectorShape.forBitSize(Math.max(64, bits));
    }

    @Override
    public String name() {
        return "vector" + INT.vectorBitSize();
    }

    /** Takes {@code n} elements from {@code from} on; {@code n} is a multiple of {@link #LANES} and at most {@link #TILE}. */
    private interface Kernel {
        void run(long from, int n);
    }

    /** Covers {@code count} elements, at least {@link #LANES}; the last ones, when they fill no vector, together with some before. */
    private static void forEachTile(long count, Kernel kernel) {
        long from = 0;
        for (; from + TILE <= count; from += TILE) {
            kernel.run(from, TILE);
        }
        int rest = (int) (count - from);
        int whole = rest - rest % LANES;
        if (whole > 0) {
            kernel.run(from, whole);
        }
        if (whole < rest) {
            kernel.run(count - LANES, LANES);
        }
    }

    private static MemorySegment slice(MemorySegment segment, long from, int n, int width) {
        return segment.asSlice(from * width, (long) n * width);
    }

    @Override
    public void encode(
            DType type, MemorySegment source, float scale, Minifloat format, Overflow overflow, MemorySegment codes) {
        Sizes.requireScale(scale);
        long count = Sizes.count(codes, type, source);
        if (count < LANES || format == Minifloat.E8M0) {
            scalar.encode(type, source, scale, format, overflow, codes);
            return;
        }
        Rounding r = Rounding.to(format, overflow);
        int width = Sizes.width(type);
        forEachTile(count, (from, n) -> {
            MemorySegment in = slice(source, from, n, width);
            MemorySegment out = slice(codes, from, n, 1);
            if (r.zeroSign() == 0) {
                encodeFnuz(type, in, scale, r, out, n);
            } else if (type == DType.F32) {
                encodeF32(in, scale, r, out, n);
            } else if (type == DType.BF16) {
                encodeBf16(in, scale, r, out, n);
            } else {
                encodeF16(in, scale, r, out, n);
            }
        });
    }

    @Override
    public void encodeEach(
            DType type,
            MemorySegment source,
            MemorySegment scales,
            Minifloat format,
            Overflow overflow,
            MemorySegment codes) {
        long count = Sizes.count(codes, type, source);
        Sizes.requireFloats(scales, count);
        if (count < LANES || !format.hasNegativeZero()) {
            // E8M0 is no format for values, and the FNUZ pair is too rare by channel for kernels of its own.
            scalar.encodeEach(type, source, scales, format, overflow, codes);
            return;
        }
        Rounding r = Rounding.to(format, overflow);
        int width = Sizes.width(type);
        forEachTile(count, (from, n) -> {
            MemorySegment in = slice(source, from, n, width);
            MemorySegment by = slice(scales, from, n, Float.BYTES);
            MemorySegment out = slice(codes, from, n, 1);
            if (type == DType.F32) {
                encodeEachF32(in, by, r, out, n);
            } else if (type == DType.BF16) {
                encodeEachBf16(in, by, r, out, n);
            } else {
                encodeEachF16(in, by, r, out, n);
            }
        });
    }

    @Override
    public void decode(Minifloat format, MemorySegment codes, float scale, DType type, MemorySegment target) {
        Sizes.requireScale(scale);
        long count = Sizes.count(codes, type, target);
        if (count < LANES || format == Minifloat.E8M0) {
            scalar.decode(format, codes, scale, type, target);
            return;
        }
        Expansion e = Expansion.from(format);
        int width = Sizes.width(type);
        forEachTile(count, (from, n) -> {
            MemorySegment in = slice(codes, from, n, 1);
            MemorySegment out = slice(target, from, n, width);
            if (type == DType.F32) {
                decodeF32(in, e, scale, out, n);
            } else if (type == DType.BF16) {
                decodeBf16(in, e, scale, out, n);
            } else {
                decodeF16(in, e, scale, out, n);
            }
        });
    }

    @Override
    public void decodeEach(
            Minifloat format, MemorySegment codes, MemorySegment scales, DType type, MemorySegment target) {
        long count = Sizes.count(codes, type, target);
        Sizes.requireFloats(scales, count);
        if (count < LANES || format == Minifloat.E8M0) {
            scalar.decodeEach(format, codes, scales, type, target);
            return;
        }
        Expansion e = Expansion.from(format);
        int width = Sizes.width(type);
        forEachTile(count, (from, n) -> {
            MemorySegment in = slice(codes, from, n, 1);
            MemorySegment by = slice(scales, from, n, Float.BYTES);
            MemorySegment out = slice(target, from, n, width);
            if (type == DType.F32) {
                decodeEachF32(in, e, by, out, n);
            } else if (type == DType.BF16) {
                decodeEachBf16(in, e, by, out, n);
            } else {
                decodeEachF16(in, e, by, out, n);
            }
        });
    }

    @Override
    public float amax(DType type, MemorySegment source) {
        long count = Sizes.count(type, source);
        int lanes = type == DType.F32 ? LANES : WIDE_SHORT.length();
        if (count < lanes) {
            return scalar.amax(type, source);
        }
        int width = Sizes.width(type);
        int bits = 0;
        for (long from = 0; from < count; from += TILE) {
            int n = (int) Math.min(TILE, count - from);
            MemorySegment in = slice(source, from, n, width);
            bits = Math.max(bits, n < lanes ? 0 : type == DType.F32 ? amaxF32(in, n) : amax16(in, n));
        }
        if (count % lanes != 0) {
            MemorySegment last = slice(source, count - lanes, lanes, width);
            bits = Math.max(bits, type == DType.F32 ? amaxF32(last, lanes) : amax16(last, lanes));
        }
        if (type == DType.F32) {
            return Float.intBitsToFloat(bits);
        }
        return type == DType.BF16 ? BFloat16.toFloat((short) bits) : Half.toFloat((short) bits);
    }

    @Override
    public void amaxEach(DType type, MemorySegment source, MemorySegment running) {
        long count = Sizes.count(type, source);
        Sizes.requireFloats(running, count);
        if (count < LANES) {
            scalar.amaxEach(type, source, running);
            return;
        }
        int width = Sizes.width(type);
        forEachTile(count, (from, n) -> {
            MemorySegment in = slice(source, from, n, width);
            MemorySegment out = slice(running, from, n, Float.BYTES);
            if (type == DType.F32) {
                amaxEachF32(in, out, n);
            } else if (type == DType.BF16) {
                amaxEachBf16(in, out, n);
            } else {
                amaxEachF16(in, out, n);
            }
        });
    }

    private static void encodeFnuz(DType type, MemorySegment in, float scale, Rounding r, MemorySegment out, int n) {
        if (type == DType.F32) {
            encodeFnuzF32(in, scale, r, out, n);
        } else if (type == DType.BF16) {
            encodeFnuzBf16(in, scale, r, out, n);
        } else {
            encodeFnuzF16(in, scale, r, out, n);
        }
    }

    // The loops, one for each type, with scale or scales. What they call is small enough to be inlined, so no vector is
    // ever an object.

    private static void encodeF32(MemorySegment in, float scale, Rounding r, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            store(round(f32(in, i).div(scale), r), out, i);
        }
    }

    private static void encodeFnuzF32(MemorySegment in, float scale, Rounding r, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            store(roundWithoutNegativeZero(f32(in, i).div(scale), r), out, i);
        }
    }

    private static void encodeEachF32(MemorySegment in, MemorySegment scales, Rounding r, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            store(round(f32(in, i).div(f32(scales, i)), r), out, i);
        }
    }

    private static void encodeBf16(MemorySegment in, float scale, Rounding r, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            store(round(bf16(in, i).div(scale), r), out, i);
        }
    }

    private static void encodeFnuzBf16(MemorySegment in, float scale, Rounding r, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            store(roundWithoutNegativeZero(bf16(in, i).div(scale), r), out, i);
        }
    }

    private static void encodeEachBf16(MemorySegment in, MemorySegment scales, Rounding r, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            store(round(bf16(in, i).div(f32(scales, i)), r), out, i);
        }
    }

    private static void encodeF16(MemorySegment in, float scale, Rounding r, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            store(round(f16(in, i).div(scale), r), out, i);
        }
    }

    private static void encodeFnuzF16(MemorySegment in, float scale, Rounding r, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            store(roundWithoutNegativeZero(f16(in, i).div(scale), r), out, i);
        }
    }

    private static void encodeEachF16(MemorySegment in, MemorySegment scales, Rounding r, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            store(round(f16(in, i).div(f32(scales, i)), r), out, i);
        }
    }

    private static void decodeF32(MemorySegment in, Expansion e, float scale, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeF32(expand(codes(in, i), e).mul(scale), out, i);
        }
    }

    private static void decodeEachF32(MemorySegment in, Expansion e, MemorySegment scales, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeF32(expand(codes(in, i), e).mul(f32(scales, i)), out, i);
        }
    }

    private static void decodeBf16(MemorySegment in, Expansion e, float scale, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeBf16(expand(codes(in, i), e).mul(scale), out, i);
        }
    }

    private static void decodeEachBf16(MemorySegment in, Expansion e, MemorySegment scales, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeBf16(expand(codes(in, i), e).mul(f32(scales, i)), out, i);
        }
    }

    private static void decodeF16(MemorySegment in, Expansion e, float scale, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeF16(expand(codes(in, i), e).mul(scale), out, i);
        }
    }

    private static void decodeEachF16(MemorySegment in, Expansion e, MemorySegment scales, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeF16(expand(codes(in, i), e).mul(f32(scales, i)), out, i);
        }
    }

    private static void amaxEachF32(MemorySegment in, MemorySegment running, int n) {
        for (int i = 0; i < n; i += LANES) {
            IntVector abs = f32(in, i).reinterpretAsInts().and(Rounding.MAGNITUDE);
            abs.max(ints(running, i)).intoMemorySegment(running, (long) i * Float.BYTES, LE);
        }
    }

    private static void amaxEachBf16(MemorySegment in, MemorySegment running, int n) {
        for (int i = 0; i < n; i += LANES) {
            IntVector abs = bf16(in, i).reinterpretAsInts().and(Rounding.MAGNITUDE);
            abs.max(ints(running, i)).intoMemorySegment(running, (long) i * Float.BYTES, LE);
        }
    }

    private static void amaxEachF16(MemorySegment in, MemorySegment running, int n) {
        for (int i = 0; i < n; i += LANES) {
            IntVector abs = f16(in, i).reinterpretAsInts().and(Rounding.MAGNITUDE);
            abs.max(ints(running, i)).intoMemorySegment(running, (long) i * Float.BYTES, LE);
        }
    }

    /** Bits of the largest magnitude of whole vectors; elements beyond the last whole one are left out. */
    private static int amaxF32(MemorySegment in, int n) {
        // Four running maxima: one alone waits for itself.
        IntVector a = IntVector.zero(INT);
        IntVector b = a;
        IntVector c = a;
        IntVector d = a;
        int i = 0;
        for (; i + 4 * LANES <= n; i += 4 * LANES) {
            a = a.max(ints(in, i).and(Rounding.MAGNITUDE));
            b = b.max(ints(in, i + LANES).and(Rounding.MAGNITUDE));
            c = c.max(ints(in, i + 2 * LANES).and(Rounding.MAGNITUDE));
            d = d.max(ints(in, i + 3 * LANES).and(Rounding.MAGNITUDE));
        }
        for (; i + LANES <= n; i += LANES) {
            a = a.max(ints(in, i).and(Rounding.MAGNITUDE));
        }
        return a.max(b).max(c.max(d)).reduceLanes(VectorOperators.MAX);
    }

    /** The same for BF16 and F16, whose bits have the order of their magnitudes too. */
    private static int amax16(MemorySegment in, int n) {
        int lanes = WIDE_SHORT.length();
        ShortVector a = ShortVector.zero(WIDE_SHORT);
        ShortVector b = a;
        int i = 0;
        for (; i + 2 * lanes <= n; i += 2 * lanes) {
            a = a.max(shorts(in, i).and((short) HALF_MAGNITUDE));
            b = b.max(shorts(in, i + lanes).and((short) HALF_MAGNITUDE));
        }
        for (; i + lanes <= n; i += lanes) {
            a = a.max(shorts(in, i).and((short) HALF_MAGNITUDE));
        }
        return a.max(b).reduceLanes(VectorOperators.MAX);
    }

    /** The formula of {@link Rounding} for formats with a negative zero; codes in the low bits of the lanes. */
    private static IntVector round(FloatVector x, Rounding r) {
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
    private static IntVector roundWithoutNegativeZero(FloatVector x, Rounding r) {
        FloatVector magnitude = x.abs();
        // NaN compares false and keeps its sign, which its code has not.
        return round(x.blend(magnitude, magnitude.compare(VectorOperators.LE, r.halfSmallest())), r);
    }

    /** The formula of {@link Expansion}. */
    private static FloatVector expand(IntVector code, Expansion e) {
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

    private static FloatVector f32(MemorySegment in, int i) {
        return FloatVector.fromMemorySegment(FLOAT, in, (long) i * Float.BYTES, LE);
    }

    private static IntVector ints(MemorySegment in, int i) {
        return IntVector.fromMemorySegment(INT, in, (long) i * Integer.BYTES, LE);
    }

    private static ShortVector shorts(MemorySegment in, int i) {
        return ShortVector.fromMemorySegment(WIDE_SHORT, in, (long) i * Short.BYTES, LE);
    }

    private static IntVector widenedShorts(MemorySegment in, int i) {
        ShortVector narrow = ShortVector.fromMemorySegment(SHORT, in, (long) i * Short.BYTES, LE);
        return (IntVector) narrow.convertShape(VectorOperators.ZERO_EXTEND_S2I, INT, 0);
    }

    private static FloatVector bf16(MemorySegment in, int i) {
        return widenedShorts(in, i).lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats();
    }

    /** Widens F16 by integer shifts; there is no vector of F16. As in {@link Expansion}, no float on the way is subnormal. */
    private static FloatVector f16(MemorySegment in, int i) {
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

    private static IntVector codes(MemorySegment in, int i) {
        return (IntVector)
                ByteVector.fromMemorySegment(BYTE, in, i, LE).convertShape(VectorOperators.ZERO_EXTEND_B2I, INT, 0);
    }

    private static void store(IntVector codes, MemorySegment out, int i) {
        ((ByteVector) codes.convertShape(VectorOperators.I2B, BYTE, 0)).intoMemorySegment(out, i, LE);
    }

    private static void storeF32(FloatVector x, MemorySegment out, int i) {
        x.intoMemorySegment(out, (long) i * Float.BYTES, LE);
    }

    /** Narrows by adding half of the last kept bit. NaNs from {@link #expand} have no payload that could carry over. */
    private static void storeBf16(FloatVector x, MemorySegment out, int i) {
        IntVector w = x.reinterpretAsInts();
        IntVector lastKept = w.lanewise(VectorOperators.LSHR, 16).and(1);
        storeShorts(w.add(0x7FFF).add(lastKept).lanewise(VectorOperators.LSHR, 16), out, i);
    }

    private static void storeF16(FloatVector x, MemorySegment out, int i) {
        storeShorts(round(x, Rounding.TO_HALF), out, i);
    }

    private static void storeShorts(IntVector bits, MemorySegment out, int i) {
        ((ShortVector) bits.convertShape(VectorOperators.I2S, SHORT, 0))
                .intoMemorySegment(out, (long) i * Short.BYTES, LE);
    }
}
