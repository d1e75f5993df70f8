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
 * Floats as ggml's blocks, bit-equal to its reference quantisers ({@code quantize_row_*_ref}). Source: ggml, src/ggml-quants.c.
 */
public final class GgmlEncode {
    /** Types that can be written. */
    public static final Set<GgufType> TYPES = Collections.unmodifiableSet(EnumSet.of(
            GgufType.F32, GgufType.F16, GgufType.BF16, GgufType.Q4_0, GgufType.Q8_0, GgufType.MXFP4, GgufType.NVFP4));

    private static final float E2M1_MAX = 6;
    private static final int NVFP4_GROUP = 16;

    private final float[] x;
    private final MemorySegment out;
    private int from;
    private long at;

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
     */
    public static void encode(GgufType type, float[] x, int count, MemorySegment into) {
        GgmlEncode e = new GgmlEncode(x, into);
        for (int n = count / type.blockElements(); n > 0; n--) {
            e.block(type);
            e.from += type.blockElements();
            e.at += type.blockBytes();
        }
    }

    private void block(GgufType type) {
        switch (type) {
            case F32 -> out.set(Tensor.F32_LE, at, x[from]);
            case F16 -> half(0, x[from]);
            case BF16 -> out.set(Tensor.I16_LE, at, BFloat16.fromFloat(x[from]));
            case Q4_0 -> q4();
            case Q8_0 -> q8();
            case MXFP4 -> mxfp4();
            case NVFP4 -> nvfp4();
            case Q4_1, Q5_0, Q5_1, Q8_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_K, IQ2_XXS, IQ2_XS, IQ3_XXS, IQ1_S, IQ4_NL ->
                throw refused(type);
            case IQ3_S, IQ2_S, IQ4_XS, I8, I16, I32, I64, F64, IQ1_M, TQ1_0, TQ2_0, Q1_0 -> throw refused(type);
        }
    }

    private static IllegalArgumentException refused(GgufType type) {
        return new IllegalArgumentException(type + " cannot be written");
    }

    private void byteAt(int offset, int value) {
        out.set(ValueLayout.JAVA_BYTE, at + offset, (byte) value);
    }

    private void half(int offset, float value) {
        out.set(Tensor.I16_LE, at + offset, Half.fromFloat(value));
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
        half(0, d);
        for (int j = 0; j < 16; j++) {
            int low = Math.min(15, (int) (x[from + j] * id + 8.5f));
            int high = Math.min(15, (int) (x[from + j + 16] * id + 8.5f));
            byteAt(2 + j, low | high << 4);
        }
    }

    private void q8() {
        float d = amax(0, 32) / 127;
        float id = inverse(d);
        half(0, d);
        for (int j = 0; j < 32; j++) {
            byteAt(2 + j, awayFromZero(x[from + j] * id));
        }
    }

    /** C's roundf. */
    private static int awayFromZero(float v) {
        return (int) (v < 0 ? -Math.floor(-(double) v + 0.5) : Math.floor((double) v + 0.5));
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
            int code = scaleCode(amax(group * NVFP4_GROUP, NVFP4_GROUP) / E2M1_MAX);
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
