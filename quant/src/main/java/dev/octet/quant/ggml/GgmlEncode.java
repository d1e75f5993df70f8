package dev.octet.quant.ggml;

import dev.octet.formats.gguf.GgufType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Half;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
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

    /** Plain numbers at once: what a small cache holds. */
    private static final int CHUNK = 1 << 12;

    private final float[] x;
    private final MemorySegment out;
    private final byte[] codes = new byte[32];
    private int from;
    private long at;
    private int lost;

    private GgmlEncode(float[] x, MemorySegment out) {
        this.x = x;
        this.out = out;
    }

    /**
     * Encodes {@code count} elements.
     *
     * @param type one of {@link #TYPES}
     * @param x finite floats
     * @param count a multiple of the type's block
     * @param into the blocks are written from its first byte on
     * @return the number of scales that became zero though their elements were not: all of these are zero now
     * @throws IllegalArgumentException for another type, or when {@code count} is no whole number of blocks
     * @throws IndexOutOfBoundsException when {@code x} or {@code into} is too short
     * @throws ArithmeticException when an element or a scale is larger than the type's largest
     */
    public static int encode(GgufType type, float[] x, int count, MemorySegment into) {
        GgmlEncode e = new GgmlEncode(x, into);
        if (type.blockElements() == 1) {
            e.floats(type, count);
            return 0;
        }
        for (long n = type.bytes(count) / type.blockBytes(); n > 0; n--) {
            e.block(type);
            e.from += type.blockElements();
            e.at += type.blockBytes();
        }
        return e.lost;
    }

    private void block(GgufType type) {
        switch (type) {
            case Q4_0 -> q4();
            case Q8_0 -> q8();
            case MXFP4 -> mxfp4();
            case NVFP4 -> nvfp4();
            case Q4_1, Q5_0, Q5_1, Q8_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_K, IQ2_XXS, IQ2_XS, IQ3_XXS, IQ1_S, IQ4_NL ->
                throw refused(type);
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

    /** Plain numbers, in loops that the compiler turns into vectors. */
    private void floats(GgufType type, int count) {
        if (type == GgufType.F32) {
            MemorySegment.copy(x, 0, out, Tensor.F32_LE, 0, count);
            return;
        }
        if (type != GgufType.F16 && type != GgufType.BF16) {
            throw refused(type);
        }
        boolean half = type == GgufType.F16;
        short[] bits = new short[Math.min(count, CHUNK)];
        for (int first = 0; first < count; first += CHUNK) {
            int some = Math.min(CHUNK, count - first);
            int largest = half ? halves(first, some, bits) : bfloat16s(first, some, bits);
            if (largest >= (half ? 0x7c00 : 0x7f80)) {
                throw tooLarge(type, first, some);
            }
            MemorySegment.copy(bits, 0, out, Tensor.I16_LE, 2L * first, some);
        }
    }

    /** Returns the largest bits without their sign: from infinity on no number. */
    private int halves(int first, int count, short[] bits) {
        for (int i = 0; i < count; i++) {
            bits[i] = Float.floatToFloat16(x[first + i]);
        }
        return largest(bits, count);
    }

    private int bfloat16s(int first, int count, short[] bits) {
        for (int i = 0; i < count; i++) {
            int f = Float.floatToRawIntBits(x[first + i]); // finite: see BFloat16 for what is not
            bits[i] = (short) ((f + 0x7fff + (f >>> 16 & 1)) >>> 16);
        }
        return largest(bits, count);
    }

    private static int largest(short[] bits, int count) {
        int largest = 0;
        for (int i = 0; i < count; i++) {
            largest = Math.max(largest, bits[i] & 0x7fff);
        }
        return largest;
    }

    private ArithmeticException tooLarge(GgufType type, int first, int count) {
        for (int i = first; i < first + count; i++) {
            boolean fits = type == GgufType.F16
                    ? Float.isFinite(Half.toFloat(Half.fromFloat(x[i])))
                    : Float.isFinite(BFloat16.toFloat(BFloat16.fromFloat(x[i])));
            if (!fits) {
                return new ArithmeticException("an element is " + x[i]
                        + (type == GgufType.F16 ? ", F16 ends at 65504" : ", BF16 ends at 3.39e38"));
            }
        }
        throw new IllegalStateException("every element fits " + type);
    }

    /** A block's scale, in its first bytes. */
    private void scale(float value) {
        short bits = Half.fromFloat(value);
        if (!Float.isFinite(Half.toFloat(bits))) {
            throw new ArithmeticException("a scale is " + value + ", F16 ends at 65504");
        }
        out.set(Tensor.I16_LE, at, bits);
        if (value != 0 && Half.toFloat(out.get(Tensor.I16_LE, at)) == 0) {
            lost++;
        }
    }

    private float amax(int first, int count) {
        float amax = 0;
        for (int i = 0; i < count; i++) {
            amax = Math.max(amax, Math.abs(x[from + first + i]));
        }
        return amax;
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

    private void q8() {
        float d = amax(0, 32) / 127;
        float id = inverse(d);
        scale(d);
        for (int j = 0; j < 32; j++) {
            codes[j] = (byte) awayFromZero(x[from + j] * id);
        }
        MemorySegment.copy(codes, 0, out, ValueLayout.JAVA_BYTE, at + 2, codes.length);
    }

    /** C's roundf of a number within an int: what is cut off is exact. */
    private static int awayFromZero(float v) {
        int whole = (int) v;
        float rest = v - whole;
        return whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
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
