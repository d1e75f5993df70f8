package dev.octet.quant.ggml;

import dev.octet.formats.gguf.GgufType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Half;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Set;

/**
 * ggml's blocks as floats, bit-equal to the gguf Python package, which does what ggml's {@code dequantize_row_*} do. Source: ggml,
 * src/ggml-quants.c and src/ggml-common.h (layout of the blocks), and gguf-py/gguf/quants.py; scales are multipliers here as there.
 */
@SuppressWarnings("OperatorPrecedence") // bits are cut out of bytes as in ggml's C
public final class GgmlDecode {
    /** Types that can be decoded: all but those whose codes index tables of lattice points, ternary ones, and ggml's own intermediate ones. */
    public static final Set<GgufType> TYPES = Collections.unmodifiableSet(EnumSet.of(
            GgufType.F32,
            GgufType.F16,
            GgufType.BF16,
            GgufType.F64,
            GgufType.Q4_0,
            GgufType.Q4_1,
            GgufType.Q5_0,
            GgufType.Q5_1,
            GgufType.Q8_0,
            GgufType.Q2_K,
            GgufType.Q3_K,
            GgufType.Q4_K,
            GgufType.Q5_K,
            GgufType.Q6_K,
            GgufType.IQ4_NL,
            GgufType.IQ4_XS,
            GgufType.MXFP4,
            GgufType.NVFP4));

    /** The values of E2M1's codes times two, as ggml has them; its scales are halves. */
    static final byte[] E2M1_TIMES_TWO = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

    /** The steps of IQ4, uneven ones. */
    private static final byte[] IQ4_STEPS = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

    /** What added leaves every float as it is, -0 too. */
    private static final float NOTHING = -0f;

    private static final float[] HALF_E8M0 = halfOfPowers();
    private static final float[] HALF_E4M3 = halfOfScales();

    private final MemorySegment bytes;
    private final float[] out;
    private long at;
    private int to;

    private GgmlDecode(MemorySegment bytes, long at, float[] out) {
        this.bytes = bytes;
        this.at = at;
        this.out = out;
    }

    /**
     * Decodes {@code count} elements.
     *
     * @param type one of {@link #TYPES}
     * @param bytes whole blocks
     * @param from the first element, a multiple of the type's block
     * @param count a multiple of the type's block
     * @param into the first {@code count} are written
     * @throws IllegalArgumentException for another type, or when {@code from} or {@code count} is no whole number of blocks
     * @throws IndexOutOfBoundsException when {@code bytes} or {@code into} is too short
     */
    public static void decode(GgufType type, MemorySegment bytes, long from, int count, float[] into) {
        GgmlDecode d = new GgmlDecode(bytes, type.bytes(from), into);
        for (long n = type.bytes(count) / type.blockBytes(); n > 0; n--) {
            d.block(type);
            d.at += type.blockBytes();
            d.to += type.blockElements();
        }
    }

    /**
     * Decodes NVFP4 under an upper scale: codes times the product of both scales, as checkpoints of two levels are dequantised. llama.cpp multiplies
     * the result of the matrix product instead.
     *
     * @param bytes whole blocks
     * @param from the first element, a multiple of 64
     * @param count a multiple of 64
     * @param upper multiplier of the whole tensor
     * @param into the first {@code count} are written
     * @throws IllegalArgumentException when {@code from} or {@code count} is no whole number of blocks
     * @throws IndexOutOfBoundsException when {@code bytes} or {@code into} is too short
     */
    public static void decodeNvfp4(MemorySegment bytes, long from, int count, float upper, float[] into) {
        GgmlDecode d = new GgmlDecode(bytes, GgufType.NVFP4.bytes(from), into);
        for (long n = GgufType.NVFP4.bytes(count) / GgufType.NVFP4.blockBytes(); n > 0; n--) {
            for (int group = 0; group < 4; group++) {
                float scale = 2 * HALF_E4M3[d.u8(group)] * upper;
                for (int j = 0; j < 8; j++) {
                    int pair = d.u8(4 + group * 8 + j);
                    int at = d.to + group * 16 + j;
                    into[at] = 0.5f * E2M1_TIMES_TWO[pair & 15] * scale;
                    into[at + 8] = 0.5f * E2M1_TIMES_TWO[pair >> 4] * scale;
                }
            }
            d.at += GgufType.NVFP4.blockBytes();
            d.to += GgufType.NVFP4.blockElements();
        }
    }

    private void block(GgufType type) {
        switch (type) {
            case F32 -> out[to] = bytes.get(Tensor.F32_LE, at);
            case F64 -> out[to] = (float) bytes.get(Tensor.F64_LE, at);
            case F16 -> out[to] = half(0);
            case BF16 -> out[to] = BFloat16.toFloat(bytes.get(Tensor.I16_LE, at));
            case Q4_0 -> nibbles(half(0), -8, NOTHING, 2);
            case Q4_1 -> nibbles(half(0), 0, half(2), 4);
            case Q5_0 -> fiveBits(half(0), -16, NOTHING, 2);
            case Q5_1 -> fiveBits(half(0), 0, half(2), 4);
            case Q8_0 -> eightBits();
            case Q2_K -> q2k();
            case Q3_K -> q3k();
            case Q4_K -> q4k();
            case Q5_K -> q5k();
            case Q6_K -> q6k();
            case IQ4_NL -> table(IQ4_STEPS, half(0), 2, 0, 16);
            case IQ4_XS -> iq4xs();
            case MXFP4 -> table(E2M1_TIMES_TWO, HALF_E8M0[u8(0)], 1, 0, 16);
            case NVFP4 -> nvfp4();
            case Q8_1,
                    Q8_K,
                    IQ2_XXS,
                    IQ2_XS,
                    IQ3_XXS,
                    IQ1_S,
                    IQ3_S,
                    IQ2_S,
                    I8,
                    I16,
                    I32,
                    I64,
                    IQ1_M,
                    TQ1_0,
                    TQ2_0,
                    Q1_0 -> throw new IllegalArgumentException(type + " cannot be decoded");
        }
    }

    private int u8(int offset) {
        return bytes.get(ValueLayout.JAVA_BYTE, at + offset) & 0xff;
    }

    private float half(int offset) {
        return Half.toFloat(bytes.get(Tensor.I16_LE, at + offset));
    }

    /** 32 codes of four bits: element j in the low half of byte j, element j + 16 in the high one. */
    private void nibbles(float scale, int shift, float least, int codes) {
        for (int j = 0; j < 16; j++) {
            int pair = u8(codes + j);
            out[to + j] = ((pair & 15) + shift) * scale + least;
            out[to + j + 16] = ((pair >> 4) + shift) * scale + least;
        }
    }

    /** The same with a fifth bit of each element in 32 bits before them. */
    private void fiveBits(float scale, int shift, float least, int highBits) {
        int high = bytes.get(Tensor.I32_LE, at + highBits);
        for (int j = 0; j < 16; j++) {
            int pair = u8(highBits + 4 + j);
            out[to + j] = ((pair & 15 | (high >> j & 1) << 4) + shift) * scale + least;
            out[to + j + 16] = ((pair >> 4 | (high >> j + 16 & 1) << 4) + shift) * scale + least;
        }
    }

    private void eightBits() {
        float scale = half(0);
        for (int j = 0; j < 32; j++) {
            out[to + j] = (byte) u8(2 + j) * scale;
        }
    }

    /** {@code 2 * width} codes of four bits that choose from a table. */
    private void table(byte[] values, float scale, int codes, int first, int width) {
        for (int j = 0; j < width; j++) {
            int pair = u8(codes + j);
            out[to + first + j] = values[pair & 15] * scale;
            out[to + first + j + width] = values[pair >> 4] * scale;
        }
    }

    private void q2k() {
        float scale = half(80);
        float least = half(82);
        int group = 0;
        for (int n = 0; n < 2; n++) {
            for (int shift = 0; shift < 8; shift += 2) {
                for (int half = 0; half < 2; half++, group++) {
                    float d = scale * (u8(group) & 15);
                    float m = least * (u8(group) >> 4);
                    for (int l = 0; l < 16; l++) {
                        out[to + group * 16 + l] = d * (u8(16 + n * 32 + half * 16 + l) >> shift & 3) - m;
                    }
                }
            }
        }
    }

    private void q3k() {
        float scale = half(108);
        int group = 0;
        for (int n = 0; n < 2; n++) {
            for (int j = 0; j < 4; j++) {
                for (int half = 0; half < 2; half++, group++) {
                    int low = group < 8 ? u8(96 + group) & 15 : u8(96 + group - 8) >> 4;
                    int high = u8(104 + group % 4) >> 2 * (group / 4) & 3;
                    float d = scale * ((low | high << 4) - 32);
                    for (int l = 0; l < 16; l++) {
                        int code = u8(32 + n * 32 + half * 16 + l) >> 2 * j & 3;
                        int top = u8(half * 16 + l) >> n * 4 + j & 1;
                        out[to + group * 16 + l] = d * (code - (top == 1 ? 0 : 4));
                    }
                }
            }
        }
    }

    /** Scale j of eight, six bits each, in twelve bytes from {@code at + 4}. */
    private int sixBitScale(int j) {
        return j < 4 ? u8(4 + j) & 63 : u8(8 + j) & 15 | u8(j) >> 6 << 4;
    }

    /** Minimum j of eight. */
    private int sixBitLeast(int j) {
        return j < 4 ? u8(8 + j) & 63 : u8(8 + j) >> 4 | u8(4 + j) >> 6 << 4;
    }

    private void q4k() {
        float scale = half(0);
        float least = half(2);
        for (int group = 0; group < 8; group++) {
            float d = scale * sixBitScale(group);
            float m = least * sixBitLeast(group);
            for (int l = 0; l < 32; l++) {
                int pair = u8(16 + group / 2 * 32 + l);
                out[to + group * 32 + l] = d * (group % 2 == 0 ? pair & 15 : pair >> 4) - m;
            }
        }
    }

    private void q5k() {
        float scale = half(0);
        float least = half(2);
        for (int group = 0; group < 8; group++) {
            float d = scale * sixBitScale(group);
            float m = least * sixBitLeast(group);
            for (int l = 0; l < 32; l++) {
                int pair = u8(48 + group / 2 * 32 + l);
                int code = (group % 2 == 0 ? pair & 15 : pair >> 4) | (u8(16 + l) >> group & 1) << 4;
                out[to + group * 32 + l] = d * code - m;
            }
        }
    }

    private void q6k() {
        float scale = half(208);
        for (int n = 0; n < 2; n++) {
            for (int l = 0; l < 128; l++) {
                int low = u8(n * 64 + l % 64);
                int four = l < 64 ? low & 15 : low >> 4;
                int two = u8(128 + n * 32 + l % 32) >> l / 32 * 2 & 3;
                float d = scale * (byte) u8(192 + n * 8 + l / 16);
                out[to + n * 128 + l] = d * ((four | two << 4) - 32);
            }
        }
    }

    private void iq4xs() {
        float scale = half(0);
        int highs = u8(2) | u8(3) << 8;
        for (int group = 0; group < 8; group++) {
            int low = u8(4 + group / 2) >> 4 * (group % 2) & 15;
            int code = low | (highs >> 2 * group & 3) << 4;
            table(IQ4_STEPS, scale * (code - 32), 8 + group * 16, group * 32, 16);
        }
    }

    private void nvfp4() {
        for (int group = 0; group < 4; group++) {
            table(E2M1_TIMES_TWO, HALF_E4M3[u8(group)], 4 + group * 8, group * 16, 8);
        }
    }

    /** What NVFP4's scale byte multiplies {@link #E2M1_TIMES_TWO} by. */
    static float nvfp4Scale(int code) {
        return HALF_E4M3[code];
    }

    /** Half of 2^(e - 127), exactly, down to subnormal numbers. */
    private static float[] halfOfPowers() {
        float[] table = new float[256];
        for (int e = 0; e < table.length; e++) {
            table[e] = (float) Math.scalb(1.0, e - 128);
        }
        return table;
    }

    /** Half of what an E4M3 code stands for without its sign. What is NaN elsewhere is 0 in ggml, and with a sign 480. */
    private static float[] halfOfScales() {
        int nan = Float8Format.E4M3FN.nanCode();
        float[] table = new float[256];
        for (int code = 0; code < table.length; code++) {
            int magnitude = code & 0x7f;
            table[code] = magnitude == nan ? (code == nan ? 0 : 240) : Float8Format.E4M3FN.decode(magnitude) / 2;
        }
        return table;
    }
}
