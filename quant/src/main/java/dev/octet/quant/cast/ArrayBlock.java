package dev.octet.quant.cast;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Minifloat;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * A thread's arrays for one block of elements, and the loops over them that {@link CastArrays} is made of.
 *
 * <p>Each loop does one thing to whole arrays of primitives, so that the compiler makes vectors of it by itself. Where bits of floats are
 * wanted as integers, the array is copied, because the compiler makes no vectors of {@link Float#floatToRawIntBits}; all of it stays in the
 * nearest cache.
 */
final class ArrayBlock {
    /** Elements of a block: its arrays, some 24 KiB, fit a nearest cache of 32. */
    static final int ELEMENTS = 1 << 10;

    private static final ThreadLocal<ArrayBlock> OF_THREAD = ThreadLocal.withInitial(ArrayBlock::new);

    /** 1.5 * 2^23: the last mantissa bit of the floats around it is worth 1, so adding it rounds to an integer in the low bits. */
    private static final float MAGIC = 0x1.8p23f;

    private final short[] halves = new short[ELEMENTS];
    private final byte[] codes = new byte[ELEMENTS];
    private final float[] values = new float[ELEMENTS];
    private final float[] others = new float[ELEMENTS];
    private final float[] scales = new float[ELEMENTS];
    private final int[] valueBits = new int[ELEMENTS];
    private final int[] otherBits = new int[ELEMENTS];
    private final MemorySegment valueMemory = MemorySegment.ofArray(values);
    private final MemorySegment otherMemory = MemorySegment.ofArray(others);
    private final MemorySegment valueBitMemory = MemorySegment.ofArray(valueBits);
    private final MemorySegment otherBitMemory = MemorySegment.ofArray(otherBits);

    private ArrayBlock() {}

    /** The arrays of the calling thread; what they held is lost. */
    static ArrayBlock ofThread() {
        return OF_THREAD.get();
    }

    /** Takes {@code n} floats, element {@code from} of {@code source} first. */
    void load(DType type, MemorySegment source, long from, int n) {
        switch (type) {
            case F32 -> MemorySegment.copy(source, Tensor.F32_LE, from * Float.BYTES, values, 0, n);
            case BF16 -> {
                MemorySegment.copy(source, Tensor.I16_LE, from * Short.BYTES, halves, 0, n);
                widen(halves, valueBits, n);
                MemorySegment.copy(valueBitMemory, 0, valueMemory, 0, (long) n * Float.BYTES);
            }
            default -> {
                MemorySegment.copy(source, Tensor.I16_LE, from * Short.BYTES, halves, 0, n);
                widenF16(halves, values, n);
            }
        }
    }

    /** Takes {@code n} codes. */
    void loadCodes(MemorySegment source, long from, int n) {
        MemorySegment.copy(source, ValueLayout.JAVA_BYTE, from, codes, 0, n);
    }

    /** Gives {@code n} values, rounded to {@code type}, to where element {@code from} lies. */
    void store(DType type, MemorySegment target, long from, int n) {
        switch (type) {
            case F32 -> MemorySegment.copy(values, 0, target, Tensor.F32_LE, from * Float.BYTES, n);
            case BF16 -> {
                MemorySegment.copy(valueMemory, 0, valueBitMemory, 0, (long) n * Float.BYTES);
                narrow(valueBits, halves, n);
                MemorySegment.copy(halves, 0, target, Tensor.I16_LE, from * Short.BYTES, n);
            }
            default -> {
                narrowF16(values, halves, n);
                MemorySegment.copy(halves, 0, target, Tensor.I16_LE, from * Short.BYTES, n);
            }
        }
    }

    /** Gives {@code n} codes. */
    void storeCodes(MemorySegment target, long from, int n) {
        MemorySegment.copy(codes, 0, target, ValueLayout.JAVA_BYTE, from, n);
    }

    /** Sets one scale for all elements. */
    void scale(float scale, int n) {
        Arrays.fill(scales, 0, n, scale);
    }

    /**
     * Sets the scale of each element.
     *
     * @param groups one F32 for each group of {@code size} elements
     * @param from index of the first element, counted over all groups
     */
    void scales(MemorySegment groups, long from, long size, int n) {
        if (size == 1) {
            MemorySegment.copy(groups, Tensor.F32_LE, from * Float.BYTES, scales, 0, n);
            return;
        }
        for (int i = 0; i < n; ) {
            long group = (from + i) / size;
            int to = (int) Math.min(n, (group + 1) * size - from);
            Arrays.fill(scales, i, to, groups.get(Tensor.F32_LE, group * Float.BYTES));
            i = to;
        }
    }

    /** Makes divisors of scales: infinity of zero, as {@link Sizes#divisor}. */
    void divisors(int n) {
        for (int i = 0; i < n; i++) {
            if (scales[i] == 0) {
                scales[i] = Float.POSITIVE_INFINITY;
            }
        }
    }

    /** Divides the values by the scales and makes codes of the quotients. */
    void encode(Rounding r, int n) {
        float magic = r.halfSmallest() * (2 << 23);
        divide(values, scales, others, magic, n);
        long bytes = (long) n * Float.BYTES;
        MemorySegment.copy(valueMemory, 0, valueBitMemory, 0, bytes);
        MemorySegment.copy(otherMemory, 0, otherBitMemory, 0, bytes);
        round(valueBits, otherBits, r, Float.floatToRawIntBits(magic), codes, n);
    }

    /** Makes values of codes. */
    void decode(Minifloat format, int n) {
        look(codes, format.decodeTable(), values, n);
        multiply(values, scales, n);
    }

    /** Divides the values by the scales and makes integers of the quotients; see {@link Cast#encodeInt8}. */
    void encodeInt8(int zeroPoint, int lowest, int n) {
        divide(values, scales, others, 0, n);
        MemorySegment.copy(valueMemory, 0, valueBitMemory, 0, (long) n * Float.BYTES);
        round(values, Byte.MAX_VALUE - zeroPoint, lowest - zeroPoint, n);
        MemorySegment.copy(valueMemory, 0, otherBitMemory, 0, (long) n * Float.BYTES);
        cut(valueBits, otherBits, zeroPoint, codes, n);
    }

    /** Makes values of integers. */
    void decodeInt8(int zeroPoint, int n) {
        steps(codes, zeroPoint, values, n);
        multiply(values, scales, n);
    }

    /** Bits of the largest magnitude of {@code n} elements. As integers they have the order of the magnitudes, then infinity, then NaN. */
    int amaxBits(DType type, MemorySegment source, long from, int n) {
        loadBits(type, source, from, n);
        return amax(valueBits, 0, n);
    }

    /** Raises the bits of running magnitudes, one for each group of {@code size} elements. */
    void amaxGroups(DType type, MemorySegment source, long from, long size, MemorySegment running, int n) {
        loadBits(type, source, from, n);
        if (size == 1) {
            MemorySegment.copy(running, Tensor.I32_LE, from * Integer.BYTES, otherBits, 0, n);
            raise(valueBits, otherBits, n);
            MemorySegment.copy(otherBits, 0, running, Tensor.I32_LE, from * Integer.BYTES, n);
            return;
        }
        for (int i = 0; i < n; ) {
            long group = (from + i) / size;
            int to = (int) Math.min(n, (group + 1) * size - from);
            long at = group * Integer.BYTES;
            running.set(Tensor.I32_LE, at, Math.max(running.get(Tensor.I32_LE, at), amax(valueBits, i, to)));
            i = to;
        }
    }

    private void loadBits(DType type, MemorySegment source, long from, int n) {
        switch (type) {
            case F32 -> MemorySegment.copy(source, Tensor.I32_LE, from * Float.BYTES, valueBits, 0, n);
            case BF16 -> {
                MemorySegment.copy(source, Tensor.I16_LE, from * Short.BYTES, halves, 0, n);
                widen(halves, valueBits, n);
            }
            default -> {
                load(type, source, from, n);
                MemorySegment.copy(valueMemory, 0, valueBitMemory, 0, (long) n * Float.BYTES);
            }
        }
    }

    private static void widen(short[] bf16, int[] bits, int n) {
        for (int i = 0; i < n; i++) {
            bits[i] = bf16[i] << 16;
        }
    }

    private static void widenF16(short[] f16, float[] values, int n) {
        for (int i = 0; i < n; i++) {
            values[i] = Float.float16ToFloat(f16[i]);
        }
    }

    /** Adds half of the last kept bit. The NaNs that decoding gives have no payload that could carry over. */
    private static void narrow(int[] bits, short[] bf16, int n) {
        for (int i = 0; i < n; i++) {
            int w = bits[i];
            bf16[i] = (short) ((w + 0x7FFF + ((w >>> 16) & 1)) >>> 16);
        }
    }

    private static void narrowF16(float[] values, short[] f16, int n) {
        for (int i = 0; i < n; i++) {
            f16[i] = Float.floatToFloat16(values[i]);
        }
    }

    private static void divide(float[] values, float[] divisors, float[] raised, float magic, int n) {
        for (int i = 0; i < n; i++) {
            float quotient = values[i] / divisors[i];
            values[i] = quotient;
            raised[i] = Math.abs(quotient) + magic;
        }
    }

    private static void multiply(float[] values, float[] scales, int n) {
        for (int i = 0; i < n; i++) {
            values[i] *= scales[i];
        }
    }

    /**
     * {@link Rounding} in integers: {@code normal} rounds magnitudes from the smallest normal number on by adding half of the last kept bit;
     * smaller ones were rounded by the adder of floats when {@code raised}, which counts them in steps of the smallest number. Each is cut
     * where the other begins, so that their sum less that border is the code.
     */
    private static void round(int[] bits, int[] raised, Rounding r, int magic, byte[] codes, int n) {
        int shift = r.shift();
        int half = (1 << (shift - 1)) - 1;
        int limit = r.limit();
        int least = r.least();
        int border = magic + (1 << (23 - shift));
        int offset = r.offset() + magic;
        int signShift = r.signShift();
        int sign = r.sign();
        int zeroSign = r.zeroSign();
        int nan = r.nan();
        int nanSign = r.nanSign();
        for (int i = 0; i < n; i++) {
            int w = bits[i];
            int abs = w & Rounding.MAGNITUDE;
            int a = Math.max(Math.min(abs, limit), least);
            int normal = (a + half + ((a >> shift) & 1)) >> shift;
            int magnitude = normal + Math.min(raised[i], border) - offset;
            int signed = (w >>> signShift) & sign;
            int code = magnitude | (signed & (zeroSign | (-magnitude >> 31)));
            int isNan = (Rounding.EXPONENT - abs) >> 31;
            codes[i] = (byte) (code ^ ((code ^ nan ^ (signed & nanSign)) & isNan));
        }
    }

    private static void look(byte[] codes, float[] table, float[] values, int n) {
        for (int i = 0; i < n; i++) {
            values[i] = table[codes[i] & 0xFF];
        }
    }

    /** Cuts to whole steps, which commutes with rounding, and rounds into the low bits. */
    private static void round(float[] quotients, float top, float bottom, int n) {
        for (int i = 0; i < n; i++) {
            quotients[i] = Math.max(Math.min(quotients[i], top), bottom) + MAGIC;
        }
    }

    /** Integers modulo 256; NaN becomes the largest. */
    private static void cut(int[] quotients, int[] rounded, int zeroPoint, byte[] codes, int n) {
        for (int i = 0; i < n; i++) {
            int isNan = (Rounding.EXPONENT - (quotients[i] & Rounding.MAGNITUDE)) >> 31;
            int code = rounded[i] + zeroPoint; // the bits of MAGIC are 0 modulo 256
            codes[i] = (byte) (code ^ ((code ^ Byte.MAX_VALUE) & isNan));
        }
    }

    private static void steps(byte[] codes, int zeroPoint, float[] values, int n) {
        for (int i = 0; i < n; i++) {
            values[i] = codes[i] - zeroPoint;
        }
    }

    private static int amax(int[] bits, int from, int to) {
        int most = 0;
        for (int i = from; i < to; i++) {
            most = Math.max(most, bits[i] & Rounding.MAGNITUDE);
        }
        return most;
    }

    private static void raise(int[] bits, int[] running, int n) {
        for (int i = 0; i < n; i++) {
            running[i] = Math.max(running[i], bits[i] & Rounding.MAGNITUDE);
        }
    }
}
