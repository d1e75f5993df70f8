package dev.octet.quant.cast;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Half;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/**
 * A thread's arrays for one block of elements, and the loops over them that {@link CastArrays} is made of.
 *
 * <p>The compiler makes vectors of a loop by itself when its arrays are of {@code int}, {@code float} or {@code long} and it does one thing
 * to each element. Three detours follow from that:
 *
 * <ul>
 *   <li>Elements of one and two bytes come as the parts of larger numbers. They lie in four planes: element {@code 4 k + p} at
 *       {@code p * PLANE + k}, so that the four codes of an {@code int} are at the same place of four planes.
 *   <li>Where bits of floats are wanted as integers, the array is copied: the compiler makes no vectors of
 *       {@link Float#floatToRawIntBits}. All of it stays in the nearest cache.
 *   <li>There is no choice between two numbers; masks, least and largest stand in for it.
 * </ul>
 */
final class ArrayBlock {
    /** Elements of a block at most: its arrays fit a nearest cache of 32 KiB. */
    static final int ELEMENTS = 1 << 10;

    private static final int PLANE = ELEMENTS / 4;

    private static final ThreadLocal<ArrayBlock> OF_THREAD = ThreadLocal.withInitial(ArrayBlock::new);

    /** 1.5 * 2^23: the last mantissa bit of the floats around it is worth 1, so adding it rounds to an integer in the low bits. */
    private static final float MAGIC = 0x1.8p23f;

    private static final int QUIET_NAN = 0x7FC00000;
    private static final int HIGH = 0xFFFF0000;
    private static final int HIGH_MAGNITUDE = 0x7FFF0000;

    private final long[] longs = new long[ELEMENTS / 2];
    private final int[] packed = new int[PLANE];
    private final short[] halves = new short[ELEMENTS];
    private final float[] values = new float[ELEMENTS];
    private final float[] others = new float[ELEMENTS];
    private final float[] scales = new float[ELEMENTS];
    private final int[] bits = new int[ELEMENTS];
    private final int[] otherBits = new int[ELEMENTS];
    private final MemorySegment longMemory = MemorySegment.ofArray(longs);
    private final MemorySegment packedMemory = MemorySegment.ofArray(packed);
    private final MemorySegment valueMemory = MemorySegment.ofArray(values);
    private final MemorySegment otherMemory = MemorySegment.ofArray(others);
    private final MemorySegment scaleMemory = MemorySegment.ofArray(scales);
    private final MemorySegment bitMemory = MemorySegment.ofArray(bits);
    private final MemorySegment otherBitMemory = MemorySegment.ofArray(otherBits);

    private ArrayBlock() {}

    /** The arrays of the calling thread; what they held is lost. */
    static ArrayBlock ofThread() {
        return OF_THREAD.get();
    }

    private static void copy(MemorySegment from, MemorySegment to, long bytes) {
        MemorySegment.copy(from, 0, to, 0, bytes);
    }

    /** Takes {@code n} floats, element {@code from} of {@code source} first. */
    void load(DType type, MemorySegment source, long from, int n) {
        if (type == DType.BF16) {
            MemorySegment.copy(source, from * Short.BYTES, longMemory, 0, (long) n * Short.BYTES);
            split(longs, 0, otherBits, 0, PLANE, PLANE);
            widen(otherBits, bits);
            copy(bitMemory, valueMemory, ELEMENTS * Float.BYTES);
            return;
        }
        if (type == DType.F32) {
            MemorySegment.copy(source, from * Float.BYTES, longMemory, 0, (long) n * Float.BYTES);
        } else {
            MemorySegment.copy(source, Tensor.I16_LE, from * Short.BYTES, halves, 0, n);
            widenF16(halves, others, n);
            copy(otherMemory, longMemory, (long) n * Float.BYTES);
        }
        splitFloats();
        copy(bitMemory, valueMemory, ELEMENTS * Float.BYTES);
    }

    /** Brings floats from {@code longs}, one behind the other, to the planes of {@code bits}. */
    private void splitFloats() {
        split(longs, 0, otherBits, 0, 2 * PLANE, 2 * PLANE);
        copy(otherBitMemory, longMemory, ELEMENTS * Float.BYTES);
        split(longs, 0, bits, 0, 2 * PLANE, PLANE);
        split(longs, PLANE, bits, PLANE, 3 * PLANE, PLANE);
    }

    /** Brings floats from the planes of {@code bits} to {@code longs}, one behind the other. */
    private void joinFloats() {
        join(bits, 0, 2 * PLANE, longs, 0, PLANE);
        join(bits, PLANE, 3 * PLANE, longs, PLANE, PLANE);
        copy(longMemory, otherBitMemory, ELEMENTS * Float.BYTES);
        join(otherBits, 0, 2 * PLANE, longs, 0, 2 * PLANE);
    }

    /** Gives {@code n} values, rounded to {@code type}, to where element {@code from} lies. */
    void store(DType type, MemorySegment target, long from, int n) {
        copy(valueMemory, bitMemory, ELEMENTS * Float.BYTES);
        if (type == DType.BF16) {
            narrow(bits, otherBits);
            join(otherBits, 0, PLANE, longs, 0, PLANE);
            MemorySegment.copy(longMemory, 0, target, from * Short.BYTES, (long) n * Short.BYTES);
            return;
        }
        joinFloats();
        if (type == DType.F32) {
            MemorySegment.copy(longMemory, 0, target, from * Float.BYTES, (long) n * Float.BYTES);
        } else {
            copy(longMemory, otherMemory, (long) n * Float.BYTES);
            narrowF16(others, halves, n);
            MemorySegment.copy(halves, 0, target, Tensor.I16_LE, from * Short.BYTES, n);
        }
    }

    /** Takes {@code n} codes. */
    void loadCodes(MemorySegment source, long from, int n) {
        MemorySegment.copy(source, from, packedMemory, 0, n);
    }

    /** Gives {@code n} codes. */
    void storeCodes(MemorySegment target, long from, int n) {
        MemorySegment.copy(packedMemory, 0, target, from, n);
    }

    /** Sets one scale for all elements. */
    void scale(float scale) {
        Arrays.fill(scales, scale);
    }

    /**
     * Sets the scale of each element.
     *
     * @param groups one F32 for each group of {@code size} elements
     * @param from index of the first element, counted over all groups
     */
    void scales(MemorySegment groups, long from, long size, int n) {
        if (size == 1) {
            copyEach(groups, from, n);
            copy(bitMemory, scaleMemory, ELEMENTS * Float.BYTES);
            return;
        }
        forEachGroup(from, size, n, (group, first, to) -> fill(first, to, groups.get(Tensor.F32_LE, group)));
    }

    /** The same of divisors: infinity for a scale of zero, as {@link Sizes#divisor}. */
    void divisors(MemorySegment groups, long from, long size, int n) {
        if (size == 1) {
            copyEach(groups, from, n);
            infinityForZero(bits);
            copy(bitMemory, scaleMemory, ELEMENTS * Float.BYTES);
            return;
        }
        forEachGroup(
                from, size, n, (group, first, to) -> fill(first, to, Sizes.divisor(groups.get(Tensor.F32_LE, group))));
    }

    private void copyEach(MemorySegment scales, long from, int n) {
        MemorySegment.copy(scales, from * Float.BYTES, longMemory, 0, (long) n * Float.BYTES);
        splitFloats();
    }

    private void fill(int from, int to, float scale) {
        for (int p = 0; p < 4; p++) {
            Arrays.fill(scales, p * PLANE + (from + 3 - p) / 4, p * PLANE + (to + 3 - p) / 4, scale);
        }
    }

    /** A group's part of a block. */
    private interface GroupVisitor {
        /**
         * Elements {@code from .. to - 1} of the block.
         *
         * @param at where the group's F32 lies
         */
        void visit(long at, int from, int to);
    }

    private static void forEachGroup(long from, long size, int n, GroupVisitor visitor) {
        for (int i = 0; i < n; ) {
            long group = (from + i) / size;
            int to = (int) Math.min(n, (group + 1) * size - from);
            visitor.visit(group * Float.BYTES, i, to);
            i = to;
        }
    }

    /** Divides the values by the scales and makes codes of the quotients. */
    void encode(Rounding r) {
        float magic = r.halfSmallest() * (2 << 23);
        divide(values, scales, others, magic);
        copy(valueMemory, bitMemory, ELEMENTS * Float.BYTES);
        copy(otherMemory, otherBitMemory, ELEMENTS * Float.BYTES);
        round(bits, otherBits, r, Float.floatToRawIntBits(magic));
        sign(bits, otherBits, r);
        pack(bits, packed);
    }

    /** Makes values of codes. */
    void decode(Float8Format format) {
        WideningConstants e = WideningConstants.from(format);
        unpack(packed, bits);
        copy(scaleMemory, otherBitMemory, ELEMENTS * Float.BYTES);
        sign(bits, otherBits, e);
        copy(otherBitMemory, scaleMemory, ELEMENTS * Float.BYTES);
        expand(bits, otherBits, e);
        copy(bitMemory, valueMemory, ELEMENTS * Float.BYTES);
        copy(otherBitMemory, otherMemory, ELEMENTS * Float.BYTES);
        float magic = Float.intBitsToFloat(e.magic());
        float least = Float.intBitsToFloat((e.firstNormal() << e.shift()) + e.rebias());
        multiply(values, others, magic + least, scales);
    }

    /** Divides the values by the scales and makes integers of the quotients; see {@link ElementCast#encodeIntegers}. */
    void encodeIntegers(int zeroPoint, QuantType type) {
        divide(values, scales, others, 0);
        cut(values, others, type.highest() - zeroPoint, type.lowest() - zeroPoint);
        copy(valueMemory, bitMemory, ELEMENTS * Float.BYTES);
        copy(otherMemory, otherBitMemory, ELEMENTS * Float.BYTES);
        integers(bits, otherBits, zeroPoint, type.highest());
        pack(bits, packed);
    }

    /** Makes values of integers. */
    void decodeIntegers(int zeroPoint) {
        unpack(packed, bits);
        steps(bits, zeroPoint, values, scales);
    }

    /** The bits of the largest magnitude of {@code n} elements. As integers they have the order of the magnitudes, then infinity, then NaN. */
    int amaxBits(DType type, MemorySegment source, long from, int n) {
        if (type == DType.F32) {
            MemorySegment.copy(source, from * Float.BYTES, bitMemory, 0, (long) n * Float.BYTES);
            return amax(bits, 0, n);
        }
        MemorySegment.copy(source, from * Short.BYTES, bitMemory, 0, (long) n * Short.BYTES);
        if (n % 2 != 0) {
            bits[n / 2] &= 0xFFFF;
        }
        return widen(type, amaxPairs(bits, 0, (n + 1) / 2));
    }

    private static int widen(DType type, int high) {
        short half = (short) (high >>> 16);
        return Float.floatToRawIntBits(type == DType.BF16 ? BFloat16.toFloat(half) : Half.toFloat(half));
    }

    /** Raises the bits of running magnitudes, one for each group of {@code size} elements, an even number. */
    void amaxGroups(DType type, MemorySegment source, long from, long size, MemorySegment running, int n) {
        boolean wide = type == DType.F32;
        int width = wide ? Float.BYTES : Short.BYTES;
        MemorySegment.copy(source, from * width, bitMemory, 0, (long) n * width);
        if (!wide && n % 2 != 0) {
            bits[n / 2] &= 0xFFFF;
        }
        forEachGroup(from, size, n, (at, first, to) -> {
            int most = wide ? amax(bits, first, to) : widen(type, amaxPairs(bits, first / 2, (to + 1) / 2));
            running.set(Tensor.I32_LE, at, Math.max(running.get(Tensor.I32_LE, at), most));
        });
    }

    /** Raises the bits of running magnitudes, one for each element. */
    void amaxEach(DType type, MemorySegment source, long from, MemorySegment running, int n) {
        load(type, source, from, n);
        copy(valueMemory, bitMemory, ELEMENTS * Float.BYTES);
        joinFloats();
        copy(longMemory, bitMemory, (long) n * Float.BYTES);
        MemorySegment.copy(running, Tensor.I32_LE, from * Integer.BYTES, otherBits, 0, n);
        raise(bits, otherBits, n);
        MemorySegment.copy(otherBits, 0, running, Tensor.I32_LE, from * Integer.BYTES, n);
    }

    /** The low halves of {@code count} longs to one place, the high ones to another. */
    private static void split(long[] longs, int from, int[] to, int low, int high, int count) {
        for (int i = 0; i < count; i++) {
            to[low + i] = (int) longs[from + i];
        }
        for (int i = 0; i < count; i++) {
            to[high + i] = (int) (longs[from + i] >>> 32);
        }
    }

    private static void join(int[] from, int low, int high, long[] longs, int to, int count) {
        for (int i = 0; i < count; i++) {
            longs[to + i] = (from[low + i] & 0xFFFFFFFFL) | ((long) from[high + i] << 32);
        }
    }

    /** Makes the bits of floats of pairs of BF16: the first and second of four in the first plane, the others in the second. */
    private static void widen(int[] pairs, int[] bits) {
        for (int i = 0; i < PLANE; i++) {
            bits[i] = pairs[i] << 16;
            bits[PLANE + i] = pairs[i] & HIGH;
        }
        for (int i = 0; i < PLANE; i++) {
            bits[2 * PLANE + i] = pairs[PLANE + i] << 16;
            bits[3 * PLANE + i] = pairs[PLANE + i] & HIGH;
        }
    }

    /** The other way; adds half of the last kept bit. The NaNs that decoding gives have no payload that could carry over. */
    private static void narrow(int[] bits, int[] pairs) {
        for (int i = 0; i < PLANE; i++) {
            int first = bits[i];
            int second = bits[PLANE + i];
            pairs[i] = ((first + 0x7FFF + ((first >>> 16) & 1)) >>> 16)
                    | ((second + 0x7FFF + ((second >>> 16) & 1)) & HIGH);
        }
        for (int i = 0; i < PLANE; i++) {
            int first = bits[2 * PLANE + i];
            int second = bits[3 * PLANE + i];
            pairs[PLANE + i] = ((first + 0x7FFF + ((first >>> 16) & 1)) >>> 16)
                    | ((second + 0x7FFF + ((second >>> 16) & 1)) & HIGH);
        }
    }

    private static void widenF16(short[] f16, float[] values, int n) {
        for (int i = 0; i < n; i++) {
            values[i] = Float.float16ToFloat(f16[i]);
        }
    }

    private static void narrowF16(float[] values, short[] f16, int n) {
        for (int i = 0; i < n; i++) {
            f16[i] = Float.floatToFloat16(values[i]);
        }
    }

    private static void pack(int[] codes, int[] packed) {
        for (int i = 0; i < PLANE; i++) {
            packed[i] = (codes[i] & 0xFF)
                    | (codes[PLANE + i] & 0xFF) << 8
                    | (codes[2 * PLANE + i] & 0xFF) << 16
                    | codes[3 * PLANE + i] << 24;
        }
    }

    private static void unpack(int[] packed, int[] codes) {
        for (int i = 0; i < PLANE; i++) {
            int four = packed[i];
            codes[i] = four & 0xFF;
            codes[PLANE + i] = (four >>> 8) & 0xFF;
            codes[2 * PLANE + i] = (four >>> 16) & 0xFF;
            codes[3 * PLANE + i] = four >>> 24;
        }
    }

    private static void divide(float[] values, float[] divisors, float[] raised, float magic) {
        for (int i = 0; i < ELEMENTS; i++) {
            float quotient = values[i] / divisors[i];
            values[i] = quotient;
            raised[i] = Math.abs(quotient) + magic;
        }
    }

    /**
     * {@link Rounding} in integers: magnitudes from the smallest normal number on are rounded by adding half of the last kept bit; smaller
     * ones were rounded by the adder of floats when they were {@code raised}, which counts them in steps of the smallest number. Each is
     * cut where the other begins, so that their sum less that border is the code.
     */
    private static void round(int[] bits, int[] raised, Rounding r, int magic) {
        int shift = r.shift();
        int half = (1 << (shift - 1)) - 1;
        int limit = r.limit();
        int least = r.least();
        int border = magic + (1 << (23 - shift));
        int offset = r.offset() + magic;
        for (int i = 0; i < ELEMENTS; i++) {
            int a = Math.max(Math.min(bits[i] & Rounding.MAGNITUDE, limit), least);
            int normal = (a + half + ((a >> shift) & 1)) >> shift;
            raised[i] = normal + Math.min(raised[i], border) - offset;
        }
    }

    /** Makes codes of the bits of quotients and the codes of their magnitudes; NaN has one of its own. */
    private static void sign(int[] bits, int[] magnitudes, Rounding r) {
        int signShift = r.signShift();
        int sign = r.sign();
        int zeroSign = r.zeroSign();
        int nan = r.nan();
        int nanSign = r.nanSign();
        for (int i = 0; i < ELEMENTS; i++) {
            int w = bits[i];
            int magnitude = magnitudes[i];
            int signed = (w >> signShift) & sign;
            int code = magnitude | (signed & (zeroSign | ((0 - magnitude) >> 31)));
            int isNan = (Rounding.EXPONENT - (w & Rounding.MAGNITUDE)) >> 31;
            bits[i] = code ^ ((code ^ nan ^ (signed & nanSign)) & isNan);
        }
    }

    /** Brings the signs of codes to the scales they are multiplied with, except to NaN. */
    private static void sign(int[] codes, int[] scales, WideningConstants e) {
        int sign = e.sign();
        int signShift = e.signShift();
        for (int i = 0; i < ELEMENTS; i++) {
            int isNan = (Rounding.EXPONENT - (scales[i] & Rounding.MAGNITUDE)) >> 31;
            scales[i] ^= ((codes[i] & sign) << signShift) & ~isNan;
        }
    }

    /**
     * {@link WideningConstants} without signs, its two cases side by side: {@code codes} become the bits of the value, of at least the smallest
     * normal number; {@code raised} those of the magic number plus the value, of at most that number. NaN has its sign.
     */
    private static void expand(int[] codes, int[] raised, WideningConstants e) {
        int sign = e.sign();
        int nan = QUIET_NAN;
        int signShift = e.signShift();
        int shift = e.shift();
        int rebias = e.rebias();
        int firstNormal = e.firstNormal();
        int magic = e.magic();
        for (int i = 0; i < ELEMENTS; i++) {
            int magnitude = codes[i] & ~sign;
            raised[i] = magic | Math.min(magnitude, firstNormal);
        }
        int infinity = e.infinity();
        int nanAdd = e.nanAdd();
        int nanMask = e.nanMask();
        int lastNumber = e.firstNan() - 1;
        for (int i = 0; i < ELEMENTS; i++) {
            int code = codes[i];
            int magnitude = code & ~sign;
            int normal = (Math.max(magnitude, firstNormal) << shift) + rebias;
            int isInfinite = ((magnitude ^ infinity) - 1) >> 31;
            int isNan = (lastNumber - ((code + nanAdd) & nanMask)) >> 31;
            normal ^= (normal ^ Rounding.EXPONENT) & isInfinite;
            codes[i] = normal ^ ((normal ^ (nan | (code & sign) << signShift)) & isNan);
        }
    }

    /** What a subnormal number lacks to the smallest normal one is {@code border - raised}, 0 for others. */
    private static void multiply(float[] values, float[] raised, float border, float[] scales) {
        for (int i = 0; i < ELEMENTS; i++) {
            values[i] = (values[i] - (border - raised[i])) * scales[i];
        }
    }

    private static void infinityForZero(int[] bits) {
        for (int i = 0; i < ELEMENTS; i++) {
            int isZero = ((bits[i] & Rounding.MAGNITUDE) - 1) >> 31;
            bits[i] ^= (bits[i] ^ Rounding.EXPONENT) & isZero;
        }
    }

    /** Cuts to whole steps, which commutes with rounding, and rounds into the low bits. */
    private static void cut(float[] quotients, float[] rounded, float top, float bottom) {
        for (int i = 0; i < ELEMENTS; i++) {
            rounded[i] = Math.max(Math.min(quotients[i], top), bottom) + MAGIC;
        }
    }

    /** Integers modulo 256; NaN becomes the highest. */
    private static void integers(int[] quotients, int[] rounded, int zeroPoint, int highest) {
        for (int i = 0; i < ELEMENTS; i++) {
            int isNan = (Rounding.EXPONENT - (quotients[i] & Rounding.MAGNITUDE)) >> 31;
            int code = rounded[i] + zeroPoint; // the bits of MAGIC are 0 modulo 256
            quotients[i] = code ^ ((code ^ highest) & isNan);
        }
    }

    private static void steps(int[] codes, int zeroPoint, float[] values, float[] scales) {
        for (int i = 0; i < ELEMENTS; i++) {
            values[i] = (float) (((codes[i] << 24) >> 24) - zeroPoint) * scales[i];
        }
    }

    private static int amax(int[] bits, int from, int to) {
        int most = 0;
        for (int i = from; i < to; i++) {
            most = Math.max(most, bits[i] & Rounding.MAGNITUDE);
        }
        return most;
    }

    /** Of pairs of two bytes each, in the high half of the result. */
    private static int amaxPairs(int[] pairs, int from, int to) {
        int most = 0;
        for (int i = from; i < to; i++) {
            int pair = pairs[i];
            most = Math.max(most, Math.max(pair & HIGH_MAGNITUDE, (pair << 16) & HIGH_MAGNITUDE));
        }
        return most;
    }

    private static void raise(int[] bits, int[] running, int n) {
        for (int i = 0; i < n; i++) {
            running[i] = Math.max(running[i], bits[i] & Rounding.MAGNITUDE);
        }
    }
}
