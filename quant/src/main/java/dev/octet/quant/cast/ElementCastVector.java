package dev.octet.quant.cast;

import static dev.octet.quant.cast.Lanes.HALF_MAGNITUDE;
import static dev.octet.quant.cast.Lanes.INT;
import static dev.octet.quant.cast.Lanes.LANES;
import static dev.octet.quant.cast.Lanes.WIDE_SHORT;
import static dev.octet.quant.cast.Lanes.bf16;
import static dev.octet.quant.cast.Lanes.codes;
import static dev.octet.quant.cast.Lanes.divisors;
import static dev.octet.quant.cast.Lanes.expand;
import static dev.octet.quant.cast.Lanes.f16;
import static dev.octet.quant.cast.Lanes.f32;
import static dev.octet.quant.cast.Lanes.ints;
import static dev.octet.quant.cast.Lanes.round;
import static dev.octet.quant.cast.Lanes.roundWithoutNegativeZero;
import static dev.octet.quant.cast.Lanes.shorts;
import static dev.octet.quant.cast.Lanes.store;
import static dev.octet.quant.cast.Lanes.storeBf16;
import static dev.octet.quant.cast.Lanes.storeF16;
import static dev.octet.quant.cast.Lanes.storeF32;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Half;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.MemorySegment;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorOperators;

/**
 * The twin on the Vector API, for the preferred vector width of the machine when that is 256 bits or more. Loading this class needs the
 * module {@code jdk.incubator.vector}; {@link ElementCast#best()} looks first.
 *
 * <p>How it is built, and why:
 *
 * <ul>
 *   <li>Kernels are small static methods with an {@code int} index over at most {@link #TILE} elements, called many times: they are
 *       compiled as whole methods and their bounds checks leave the loop. One call over a whole tensor would run code compiled for
 *       replacement on the stack, and a {@code long} index keeps the checks.
 *   <li>A run's last incomplete vector is done as a whole one that overlaps its predecessor; runs shorter than a vector go through
 *       {@link ElementCastScalar}, whose formula is the same.
 *   <li>Loops are not unrolled by hand: four vectors at a time ran at a third of the speed, for want of registers.
 *   <li>Scales are divided by, not multiplied with: with 512-bit vectors division costs BF16 input some 10 % in cache and nothing from
 *       memory.
 * </ul>
 */
public final class ElementCastVector implements ElementCast {
    /** Elements per call of a kernel. A multiple of every vector length. */
    static final int TILE = 1 << 14;

    private final ElementCastScalar scalar = new ElementCastScalar();

    /** A vector twin; it has no state. */
    public ElementCastVector() {}

    /** Whether vectors of this machine are wide enough: below 256 bits the bytes of one vector of ints fill no vector. */
    static boolean fits() {
        return INT.vectorBitSize() >= 256;
    }

    @Override
    public String name() {
        return "vector" + INT.vectorBitSize();
    }

    /** Takes {@code n} elements from {@code from} on; {@code n} is a multiple of {@link Lanes#LANES} and at most {@link #TILE}. */
    private interface Kernel {
        void run(long from, int n);
    }

    /** Covers {@code count} elements, at least {@link Lanes#LANES}; the last ones, when they fill no vector, together with some before. */
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

    private static MemorySegment slice(MemorySegment segment, long from, long n, int width) {
        return segment.asSlice(from * width, n * width);
    }

    @Override
    public void encode(
            DType type,
            MemorySegment source,
            float scale,
            Float8Format format,
            Overflow overflow,
            MemorySegment codes) {
        Sizes.requireScale(scale);
        encodeBy(scale, type, source, format, overflow, codes);
    }

    /** As {@link #encode}; the scale may be infinite, which gives zeros. */
    private void encodeBy(
            float scale,
            DType type,
            MemorySegment source,
            Float8Format format,
            Overflow overflow,
            MemorySegment codes) {
        long count = Sizes.count(codes, type, source);
        if (count < LANES || format == Float8Format.E8M0) {
            scalar.encodeBy(scale, type, source, format, overflow, codes);
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

    private void encodeEach(
            DType type,
            MemorySegment source,
            MemorySegment scales,
            Float8Format format,
            Overflow overflow,
            MemorySegment codes) {
        long count = Sizes.count(codes, type, source);
        Sizes.requireFloats(scales, count);
        if (count < LANES || !format.hasNegativeZero()) {
            // E8M0 is not a format for values, and the FNUZ pair is too rare by channel for kernels of its own.
            scalar.encodeGroups(type, source, scales, 1, format, overflow, codes);
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
    public void decode(Float8Format format, MemorySegment codes, float scale, DType type, MemorySegment target) {
        Sizes.requireScale(scale);
        decodeBy(scale, format, codes, type, target);
    }

    /** As {@link #decode}, with any scale. */
    private void decodeBy(float scale, Float8Format format, MemorySegment codes, DType type, MemorySegment target) {
        long count = Sizes.count(codes, type, target);
        if (count < LANES || format == Float8Format.E8M0) {
            scalar.decodeBy(scale, format, codes, type, target);
            return;
        }
        WideningConstants e = WideningConstants.from(format);
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

    private void decodeEach(
            Float8Format format, MemorySegment codes, MemorySegment scales, DType type, MemorySegment target) {
        long count = Sizes.count(codes, type, target);
        Sizes.requireFloats(scales, count);
        if (count < LANES || format == Float8Format.E8M0) {
            scalar.decodeGroups(format, codes, scales, 1, type, target);
            return;
        }
        WideningConstants e = WideningConstants.from(format);
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

    private void amaxEach(DType type, MemorySegment source, MemorySegment running) {
        long count = Sizes.count(type, source);
        Sizes.requireFloats(running, count);
        if (count < LANES) {
            scalar.amaxGroups(type, source, 1, running);
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

    @Override
    public void encodeGroups(
            DType type,
            MemorySegment source,
            MemorySegment scales,
            long size,
            Float8Format format,
            Overflow overflow,
            MemorySegment codes) {
        long count = Sizes.count(codes, type, source);
        Sizes.requireGroups(scales, count, size);
        if (size == 1) {
            encodeEach(type, source, scales, format, overflow, codes);
            return;
        }
        int width = Sizes.width(type);
        long whole = format.hasNegativeZero() ? GroupLoops.whole(count, size) : 0;
        if (whole > 0) {
            Rounding r = Rounding.to(format, overflow);
            int shift = GroupLoops.shift(size);
            forEachTile(whole, (from, n) -> {
                MemorySegment in = slice(source, from, n, width);
                MemorySegment by = slice(scales, from >>> shift, n >>> shift, Float.BYTES);
                GroupLoops.encode(type, in, by, shift, r, slice(codes, from, n, 1), n);
            });
        }
        for (long from = whole; from < count; from += size) {
            long n = Math.min(size, count - from);
            float by = Sizes.divisor(scales.get(Tensor.F32_LE, from / size * Float.BYTES));
            encodeBy(by, type, slice(source, from, n, width), format, overflow, slice(codes, from, n, 1));
        }
    }

    @Override
    public void decodeGroups(
            Float8Format format,
            MemorySegment codes,
            MemorySegment scales,
            long size,
            DType type,
            MemorySegment target) {
        long count = Sizes.count(codes, type, target);
        Sizes.requireGroups(scales, count, size);
        if (size == 1) {
            decodeEach(format, codes, scales, type, target);
            return;
        }
        int width = Sizes.width(type);
        long whole = format == Float8Format.E8M0 ? 0 : GroupLoops.whole(count, size);
        if (whole > 0) {
            WideningConstants e = WideningConstants.from(format);
            int shift = GroupLoops.shift(size);
            forEachTile(whole, (from, n) -> {
                MemorySegment in = slice(codes, from, n, 1);
                MemorySegment by = slice(scales, from >>> shift, n >>> shift, Float.BYTES);
                GroupLoops.decode(type, in, e, by, shift, slice(target, from, n, width), n);
            });
        }
        for (long from = whole; from < count; from += size) {
            long n = Math.min(size, count - from);
            float by = scales.get(Tensor.F32_LE, from / size * Float.BYTES);
            decodeBy(by, format, slice(codes, from, n, 1), type, slice(target, from, n, width));
        }
    }

    @Override
    public void amaxGroups(DType type, MemorySegment source, long size, MemorySegment running) {
        long count = Sizes.count(type, source);
        Sizes.requireGroups(running, count, size);
        if (size == 1) {
            amaxEach(type, source, running);
            return;
        }
        int width = Sizes.width(type);
        long whole = GroupLoops.whole(count, size);
        if (whole > 0) {
            int shift = GroupLoops.shift(size);
            forEachTile(whole, (from, n) -> {
                MemorySegment in = slice(source, from, n, width);
                GroupLoops.amax(type, in, shift, slice(running, from >>> shift, n >>> shift, Float.BYTES), n);
            });
        }
        for (long from = whole; from < count; from += size) {
            long n = Math.min(size, count - from);
            int bits = Float.floatToRawIntBits(amax(type, slice(source, from, n, width)));
            long at = from / size * Float.BYTES;
            running.set(Tensor.I32_LE, at, Math.max(running.get(Tensor.I32_LE, at), bits));
        }
    }

    @Override
    public void encodeIntegers(
            DType type, MemorySegment source, float scale, int zeroPoint, QuantType integers, MemorySegment codes) {
        long count = Sizes.count(codes, type, source);
        if (count < LANES) {
            scalar.encodeIntegers(type, source, scale, zeroPoint, integers, codes);
            return;
        }
        int width = Sizes.width(type);
        float by = Sizes.divisor(scale);
        forEachTile(count, (from, n) -> {
            MemorySegment in = slice(source, from, n, width);
            IntegerLoops.encode(type, in, by, zeroPoint, integers, slice(codes, from, n, 1), n);
        });
    }

    @Override
    public void decodeIntegers(MemorySegment codes, float scale, int zeroPoint, DType type, MemorySegment target) {
        long count = Sizes.count(codes, type, target);
        if (count < LANES) {
            scalar.decodeIntegers(codes, scale, zeroPoint, type, target);
            return;
        }
        int width = Sizes.width(type);
        forEachTile(count, (from, n) -> {
            MemorySegment in = slice(codes, from, n, 1);
            IntegerLoops.decode(type, in, scale, zeroPoint, slice(target, from, n, width), n);
        });
    }

    @Override
    public Range range(DType type, MemorySegment source) {
        long count = Sizes.count(type, source);
        if (count < LANES) {
            return scalar.range(type, source);
        }
        int width = Sizes.width(type);
        Range[] range = {Range.ZERO};
        forEachTile(count, (from, n) -> {
            long ends = IntegerLoops.range(type, slice(source, from, n, width), n);
            range[0] = range[0].with(IntegerLoops.smallest(ends)).with(IntegerLoops.largest(ends));
        });
        return range[0];
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
            store(round(f32(in, i).div(divisors(scales, i)), r), out, i);
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
            store(round(bf16(in, i).div(divisors(scales, i)), r), out, i);
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
            store(round(f16(in, i).div(divisors(scales, i)), r), out, i);
        }
    }

    private static void decodeF32(MemorySegment in, WideningConstants e, float scale, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeF32(expand(codes(in, i), e).mul(scale), out, i);
        }
    }

    private static void decodeEachF32(
            MemorySegment in, WideningConstants e, MemorySegment scales, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeF32(expand(codes(in, i), e).mul(f32(scales, i)), out, i);
        }
    }

    private static void decodeBf16(MemorySegment in, WideningConstants e, float scale, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeBf16(expand(codes(in, i), e).mul(scale), out, i);
        }
    }

    private static void decodeEachBf16(
            MemorySegment in, WideningConstants e, MemorySegment scales, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeBf16(expand(codes(in, i), e).mul(f32(scales, i)), out, i);
        }
    }

    private static void decodeF16(MemorySegment in, WideningConstants e, float scale, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeF16(expand(codes(in, i), e).mul(scale), out, i);
        }
    }

    private static void decodeEachF16(
            MemorySegment in, WideningConstants e, MemorySegment scales, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeF16(expand(codes(in, i), e).mul(f32(scales, i)), out, i);
        }
    }

    // The running amaxes are read as what their array holds: of vectors of ints over an array of floats C2 makes calls
    // instead of
    // instructions in some runs and not in others, ten times slower.
    private static void amaxEachF32(MemorySegment in, MemorySegment running, int n) {
        for (int i = 0; i < n; i += LANES) {
            IntVector abs = f32(in, i).reinterpretAsInts().and(Rounding.MAGNITUDE);
            storeF32(abs.max(f32(running, i).reinterpretAsInts()).reinterpretAsFloats(), running, i);
        }
    }

    private static void amaxEachBf16(MemorySegment in, MemorySegment running, int n) {
        for (int i = 0; i < n; i += LANES) {
            IntVector abs = bf16(in, i).reinterpretAsInts().and(Rounding.MAGNITUDE);
            storeF32(abs.max(f32(running, i).reinterpretAsInts()).reinterpretAsFloats(), running, i);
        }
    }

    private static void amaxEachF16(MemorySegment in, MemorySegment running, int n) {
        for (int i = 0; i < n; i += LANES) {
            IntVector abs = f16(in, i).reinterpretAsInts().and(Rounding.MAGNITUDE);
            storeF32(abs.max(f32(running, i).reinterpretAsInts()).reinterpretAsFloats(), running, i);
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
}
