package dev.octet.quant.ggml;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.gguf.GgufType;
import dev.octet.quant.number.Float8Format;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** NVFP4 of checkpoints as ggml's blocks. With whole models: {@code GgufNvfp4Test} of the converter. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class Nvfp4BlocksTest {
    private static final float[] E2M1 = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    private static final int BLOCKS = 64;

    private final byte[] codes = new byte[32 * BLOCKS];
    private final byte[] scales = new byte[4 * BLOCKS];
    private final byte[] blocks = new byte[36 * BLOCKS];

    /** Every pair of codes, and every scale that ggml has. */
    private void fill() {
        new SplittableRandom(4).nextBytes(codes);
        for (int i = 0; i < 256; i++) {
            codes[i * 5 % codes.length] = (byte) i;
        }
        for (int i = 0; i < scales.length; i++) {
            scales[i] = (byte) (i % (Nvfp4Blocks.LARGEST_SCALE + 1));
        }
    }

    private long pack() {
        return Nvfp4Blocks.pack(
                MemorySegment.ofArray(codes), MemorySegment.ofArray(scales), BLOCKS, MemorySegment.ofArray(blocks));
    }

    private float[] values(float upper) {
        float[] values = new float[64 * BLOCKS];
        for (int i = 0; i < values.length; i++) {
            int code = (codes[i / 2] >> (4 * (i % 2))) & 15;
            values[i] = E2M1[code] * (Float8Format.E4M3FN.decode(scales[i / 16]) * upper);
        }
        return values;
    }

    @Test
    void blocks_decode_to_codes_times_scales() {
        fill();
        assertEquals(-1, pack());
        float[] decoded = new float[64 * BLOCKS];
        GgmlDecode.decode(GgufType.NVFP4, MemorySegment.ofArray(blocks), 0, decoded.length, decoded);
        assertArrayEquals(values(1), decoded);
    }

    @ParameterizedTest
    @ValueSource(floats = {1, 0.3f, 6.2189053e-4f, 1e-30f, 3e5f})
    void blocks_under_an_upper_scale_decode_as_readers_of_checkpoints_do(float upper) {
        fill();
        assertEquals(-1, pack());
        float[] decoded = new float[64];
        GgmlDecode.decodeNvfp4(MemorySegment.ofArray(blocks), 64 * 7, 64, upper, decoded);
        assertArrayEquals(Arrays.copyOfRange(values(upper), 64 * 7, 64 * 8), decoded);
    }

    @Test
    void blocks_give_every_code_and_scale_back() {
        fill();
        pack();
        byte[] codesBack = new byte[codes.length];
        byte[] scalesBack = new byte[scales.length];
        Nvfp4Blocks.unpack(
                MemorySegment.ofArray(blocks),
                BLOCKS,
                MemorySegment.ofArray(codesBack),
                MemorySegment.ofArray(scalesBack));
        assertArrayEquals(codes, codesBack);
        assertArrayEquals(scales, scalesBack);
    }

    @ParameterizedTest
    @ValueSource(ints = {0x7f, 0x80, 0xb8, 0xff})
    void a_scale_that_ggml_reads_as_another_number_is_found(int scale) {
        fill();
        scales[129] = (byte) scale;
        assertEquals(129, pack());
    }
}
