package dev.octet.quant.ggml;

import dev.octet.formats.gguf.GgufType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Half;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Set;

/**
 * Floats as ggml's blocks, bit-equal to the gguf Python package, which does what ggml's reference quantisers do ({@code quantize_row_*_ref}); NVFP4,
 * which that package cannot quantise, by ggml's formulas. Source: ggml, src/ggml-quants.c, and gguf-py/gguf/quants.py.
 */
@SuppressWarnings("OperatorPrecedence") // bits are put together as in ggml's C
public final class GgmlEncode {
    /** Types that can be written. */
    public static final Set<GgufType> TYPES = Collections.unmodifiableSet(EnumSet.of(
            GgufType.F32, GgufType.F16, GgufType.BF16, GgufType.Q4_0, GgufType.Q8_0, GgufType.MXFP4, GgufType.NVFP4));

    private static final float E2M1_MAX = 6;

    /** The largest magnitude of NVFP4, whose blocks have no scale above their own here; ggml, and so {@link #encode}, clips larger ones. */
    public static final float NVFP4_MAX = 448 * E2M1_MAX;

    private static final int NVFP4_GROUP = 16;

    private static final int Q8_BLOCK = 32;
    private static final int Q8_BYTES = Q8_BLOCK + Short.BYTES;

    /** Elements at once: what a small cache holds, and a multiple of every type's block. */
    private static final int CHUNK = 1 << 11;

    private static final VarHandle LONGS = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    private final DType sourceType;
    private final MemorySegment source;
    private final MemorySegment out;
    private final float[] x = new float[CHUNK];
    private final int[] bits = new int[CHUNK];
    private final int[] pairs = new int[CHUNK / 2];
    private final int[] packed = new int[CHUNK / Integer.BYTES];
    private final short[] narrow = new short[CHUNK];
    private final float[] inverses = new float[CHUNK];
    private final byte[] codes = new byte[CHUNK];
    private final MemorySegment codeBytes = MemorySegment.ofArray(codes);
    private final byte[] blocks = new byte[CHUNK / Q8_BLOCK * Q8_BYTES];
    private int from;
    private long at;
    private int lost;

    private GgmlEncode(DType sourceType, MemorySegment source, MemorySegment out) {
        this.sourceType = sourceType;
        this.source = source;
        this.out = out;
    }

    /**
     * Encodes {@code count} elements.
     *
     * @param type one of {@link #TYPES}
     * @param floats finite F32, little-endian
     * @param count a multiple of the type's block
     * @param into the blocks are written from its first byte on
     * @return the number of scales that became zero though their elements were not: all of these are zero now
     * @throws IllegalArgumentException for another type, or when {@code count} is no whole number of blocks
     * @throws IndexOutOfBoundsException when {@code floats} or {@code into} is too short
     * @throws ArithmeticException when an element or a scale is larger than the type's largest
     */
    public static int encode(GgufType type, MemorySegment floats, long count, MemorySegment into) {
        return encode(type, DType.F32, floats, count, into);
    }

    /**
     * The same of F32 or BF16, whose elements are widened on the way. Where the type is F16 or Q8_0, elements need not be finite: others are refused.
     *
     * @param sourceType F32 or BF16; BF16 not to F32
     * @throws ArithmeticException when an element or a scale is larger than the type's largest, or NaN where the type is F16 or Q8_0
     */
    public static int encode(GgufType type, DType sourceType, MemorySegment floats, long count, MemorySegment into) {
        type.bytes(count); // a whole number of blocks
        if (sourceType != DType.F32 && (sourceType != DType.BF16 || type == GgufType.F32)) {
            throw new IllegalArgumentException(sourceType + " to " + type);
        }
        if (type == GgufType.F32) {
            MemorySegment.copy(floats, 0, into, 0, count * Float.BYTES);
            return 0;
        }
        GgmlEncode e = new GgmlEncode(sourceType, floats, into);
        for (long first = 0; first < count; first += CHUNK) {
            e.chunk(type, first, (int) Math.min(CHUNK, count - first));
        }
        return e.lost;
    }

    /** From here on, loops that the compiler turns into vectors; of {@link Float#floatToRawIntBits} it makes none, so bits are copied. */
    private void chunk(GgufType type, long first, int n) {
        if (sourceType == DType.F32) {
            MemorySegment.copy(source, Tensor.F32_LE, first * Float.BYTES, x, 0, n);
            MemorySegment.copy(source, Tensor.I32_LE, first * Float.BYTES, bits, 0, n);
        } else {
            widen(first, n);
        }
        switch (type) {
            case F16 -> {
                requireFits(type, n, Half.toFloat(Half.fromFloat(magnitude(0, n))));
                halves(x, narrow, n);
                plain(n);
            }
            case BF16 -> {
                requireFits(type, n, BFloat16.toFloat(BFloat16.fromFloat(magnitude(0, n))));
                bfloat16s(bits, narrow, n);
                plain(n);
            }
            case Q8_0 -> q8(n);
            default -> {
                for (from = 0; from < n; from += type.blockElements()) {
                    block(type);
                    at += type.blockBytes();
                }
            }
        }
    }

    private void widen(long first, int n) {
        MemorySegment.copy(source, Tensor.I32_LE, first * Short.BYTES, pairs, 0, n / 2);
        Floats.widenBf16(pairs, bits, n / 2);
        if (n % 2 != 0) {
            bits[n - 1] = source.get(Tensor.I16_LE, (first + n - 1) * Short.BYTES) << Short.SIZE;
        }
        MemorySegment.copy(MemorySegment.ofArray(bits), ValueLayout.JAVA_FLOAT, 0, x, 0, n);
    }

    private void plain(int n) {
        MemorySegment.copy(narrow, 0, out, Tensor.I16_LE, at, n);
        at += (long) n * Short.BYTES;
    }

    private float magnitude(int first, int n) {
        return Float.intBitsToFloat(largest(bits, first, first + n));
    }

    /** The bits of magnitudes have their order. */
    private static int largest(int[] bits, int from, int to) {
        int largest = 0;
        for (int i = from; i < to; i++) {
            largest = Math.max(largest, bits[i] & Integer.MAX_VALUE);
        }
        return largest;
    }

    private static void halves(float[] x, short[] narrow, int n) {
        for (int i = 0; i < n; i++) {
            narrow[i] = Float.floatToFloat16(x[i]);
        }
    }

    /** Of finite numbers; see BFloat16 for others. */
    private static void bfloat16s(int[] bits, short[] narrow, int n) {
        for (int i = 0; i < n; i++) {
            narrow[i] = (short) ((bits[i] + 0x7fff + (bits[i] >>> 16 & 1)) >>> 16);
        }
    }

    private void requireFits(GgufType type, int n, float largest) {
        if (Float.isFinite(largest)) {
            return;
        }
        for (int i = 0; i < n; i++) {
            boolean fits = type == GgufType.F16
                    ? Float.isFinite(Half.toFloat(Half.fromFloat(x[i])))
                    : Float.isFinite(BFloat16.toFloat(BFloat16.fromFloat(x[i])));
            if (!fits) {
                throw new ArithmeticException("an element is " + x[i]
                        + (type == GgufType.F16 ? ", F16 ends at 65504" : ", BF16 ends at 3.39e38"));
            }
        }
    }

    private void block(GgufType type) {
        switch (type) {
            case Q4_0 -> q4();
            case MXFP4 -> mxfp4();
            case NVFP4 -> nvfp4();
            case Q4_1,
                    Q5_0,
                    Q5_1,
                    Q8_0,
                    Q8_1,
                    Q2_K,
                    Q3_K,
                    Q4_K,
                    Q5_K,
                    Q6_K,
                    Q8_K,
                    IQ2_XXS,
                    IQ2_XS,
                    IQ3_XXS,
                    IQ1_S,
                    IQ4_NL -> throw refused(type);
            case IQ3_S, IQ2_S, IQ4_XS, I8, I16, I32, I64, IQ1_M, TQ1_0, TQ2_0, Q1_0 -> throw refused(type);
            case F32, F16, BF16, F64 -> throw refused(type); // no blocks: floats
        }
    }

    private static IllegalArgumentException refused(GgufType type) {
        return new IllegalArgumentException(type + " cannot be written");
    }

    private void byteAt(int offset, int value) {
        out.set(ValueLayout.JAVA_BYTE, at + offset, (byte) value);
    }

    /** A block's scale, in its first bytes. */
    private void scale(float value) {
        out.set(Tensor.I16_LE, at, half(value));
    }

    /** A scale in F16; counts those that become zero. */
    private short half(float value) {
        short bits = Half.fromFloat(value);
        float back = Half.toFloat(bits);
        if (!Float.isFinite(back)) {
            throw new ArithmeticException("a scale is " + value + ", F16 ends at 65504");
        }
        if (value != 0 && back == 0) {
            lost++;
        }
        return bits;
    }

    private float amax(int first, int count) {
        return magnitude(from + first, count);
    }

    private static float inverse(float d) {
        return d == 0 ? 0 : 1 / d;
    }

    /** The element of the largest magnitude becomes -8. */
    private void q4() {
        float amax = 0;
        float extreme = 0;
        for (int i = 0; i < 32; i++) {
            float v = x[from + i];
            if (amax < Math.abs(v)) {
                amax = Math.abs(v);
                extreme = v;
            }
        }
        float d = extreme / -8;
        float id = inverse(d);
        scale(d);
        for (int j = 0; j < 16; j++) {
            int low = Math.min(15, (int) (x[from + j] * id + 8.5f));
            int high = Math.min(15, (int) (x[from + j + 16] * id + 8.5f));
            byteAt(2 + j, low | high << 4);
        }
    }

    private void q8(int n) {
        for (int block = 0, to = 0; block < n; block += Q8_BLOCK, to += Q8_BYTES) {
            float d = magnitude(block, Q8_BLOCK) / 127;
            short scale = half(d);
            blocks[to] = (byte) scale;
            blocks[to + 1] = (byte) (scale >> Byte.SIZE);
            Arrays.fill(inverses, block, block + Q8_BLOCK, inverse(d));
        }
        awayFromZero(x, inverses, bits, n);
        pack(bits, packed, n / Integer.BYTES);
        MemorySegment.copy(packed, 0, codeBytes, Tensor.I32_LE, 0, n / Integer.BYTES);
        int bytes = n / Q8_BLOCK * Q8_BYTES;
        for (int block = 0, to = Short.BYTES; block < n; block += Q8_BLOCK, to += Q8_BYTES) {
            for (int i = 0; i < Q8_BLOCK; i += Long.BYTES) { // arraycopy takes twice as long
                LONGS.set(blocks, to + i, (long) LONGS.get(codes, block + i));
            }
        }
        MemorySegment.copy(blocks, 0, out, ValueLayout.JAVA_BYTE, at, bytes);
        at += bytes;
    }

    /** C's roundf of products within a byte: what is cut off is exact, and twice of it is a whole number from one half on. */
    private static void awayFromZero(float[] x, float[] factors, int[] rounded, int n) {
        for (int i = 0; i < n; i++) {
            float v = x[i] * factors[i];
            int whole = (int) v;
            float rest = v - whole;
            rounded[i] = whole + (int) (rest + rest);
        }
    }

    /** Four codes to an integer, the first lowest: a loop that casts to {@code byte} takes nearly twice as long. */
    private static void pack(int[] rounded, int[] packed, int n) {
        for (int i = 0; i < n; i++) {
            packed[i] = rounded[4 * i] & 0xFF
                    | (rounded[4 * i + 1] & 0xFF) << 8
                    | (rounded[4 * i + 2] & 0xFF) << 16
                    | rounded[4 * i + 3] << 24;
        }
    }

    private void mxfp4() {
        float amax = amax(0, 32);
        int e = amax > 0 ? (int) Math.floor(log2(amax)) - 2 + 127 : 0;
        byteAt(0, Math.max(0, e));
        codes((float) Math.scalb(1.0, Math.max(0, e) - 128), 1, 0, 16);
    }

    /** As log2f rounds it. */
    private static float log2(float v) {
        int exponent = Math.getExponent(v);
        return (float) (exponent + Math.log(Math.scalb((double) v, -exponent)) / Math.log(2));
    }

    private void nvfp4() {
        for (int group = 0; group < 4; group++) {
            float amax = amax(group * NVFP4_GROUP, NVFP4_GROUP);
            int code = scaleCode(amax / E2M1_MAX);
            if (code == 0 && amax > 0) {
                lost++;
            }
            byteAt(group, code);
            codes(GgmlDecode.nvfp4Scale(code), 4 + group * 8, group * NVFP4_GROUP, 8);
        }
    }

    /** {@code 2 * width} nearest codes of E2M1, of two equally near ones the smaller magnitude. */
    private void codes(float scale, int bytes, int first, int width) {
        for (int j = 0; j < width; j++) {
            int low = nearest(x[from + first + j], scale);
            int high = nearest(x[from + first + j + width], scale);
            byteAt(bytes + j, low | high << 4);
        }
    }

    private static int nearest(float v, float scale) {
        int best = 0;
        float least = Float.POSITIVE_INFINITY;
        for (int code = 0; code < GgmlDecode.E2M1_TIMES_TWO.length; code++) {
            float error = Math.abs(scale * GgmlDecode.E2M1_TIMES_TWO[code] - v);
            if (error < least) {
                least = error;
                best = code;
            }
        }
        return best;
    }

    /** A scale as unsigned E4M3, halves away from zero (ggml_fp32_to_ue4m3), not to even as elsewhere. */
    static int scaleCode(float scale) {
        if (!(scale > 0)) {
            return 0;
        }
        float v = Math.min(scale, 448);
        int exponent = Math.getExponent(v) + 7;
        if (exponent <= 0) {
            return Math.clamp((int) (v * 512 + 0.5f), 0, 7);
        }
        if (exponent >= 15) {
            return 0x7e;
        }
        int bits = Float.floatToRawIntBits(v);
        int mantissa = (bits >> 20 & 7) + (bits >> 19 & 1);
        int code = (exponent << 3) + mantissa; // a mantissa of 8 carries into the exponent
        return code >> 3 >= 15 ? 0x7e : code;
    }
}
