package dev.octet.quant.ggml;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.ModelFile;
import dev.octet.formats.gguf.GgufFile;
import dev.octet.formats.gguf.GgufHeader;
import dev.octet.formats.gguf.GgufType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.BFloat16;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Against the reference formulas of the gguf package, see testdata/make/gguf_blocks.py. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GgmlBlocksTest {
    private static final Path GOLDEN = Path.of(System.getProperty("octet.testdata"), "golden/gguf");

    @Test
    void random_blocks_of_every_type_decode_to_the_bits_of_ggml() throws IOException {
        try (Arena arena = Arena.ofConfined();
                ModelFile expected = ModelFile.open(GOLDEN.resolve("decode.safetensors"))) {
            GgufFile file = GgufFile.open(GOLDEN.resolve("decode.gguf"), arena);
            int types = 0;
            for (GgufHeader.Entry e : file.header().entries()) {
                float[] values = new float[1024];
                GgmlDecode.decode(e.tensor().type(), file.bytes(e), 0, values.length, values);
                assertArrayEquals(
                        tensor(expected.model().tensors(), e.tensor().name()).toFloats(),
                        values,
                        e.tensor().name());
                types++;
            }
            assertEquals(GgmlDecode.TYPES.size() - 1, types); // F64 has no golden
        }
    }

    @Test
    void decoding_from_the_second_row_gives_the_second_row() throws IOException {
        try (Arena arena = Arena.ofConfined();
                ModelFile expected = ModelFile.open(GOLDEN.resolve("decode.safetensors"))) {
            GgufFile file = GgufFile.open(GOLDEN.resolve("decode.gguf"), arena);
            for (GgufHeader.Entry e : file.header().entries()) {
                float[] row = new float[512];
                GgmlDecode.decode(e.tensor().type(), file.bytes(e), 512, 512, row);
                float[] all =
                        tensor(expected.model().tensors(), e.tensor().name()).toFloats();
                assertEquals(all[512], row[0], e.tensor().name());
                assertEquals(all[1023], row[511], e.tensor().name());
            }
        }
    }

    static Stream<GgufType> written() {
        return GgmlEncode.TYPES.stream();
    }

    @ParameterizedTest
    @MethodSource("written")
    void floats_encode_to_the_bytes_of_ggml(GgufType type) throws IOException {
        try (ModelFile golden = ModelFile.open(GOLDEN.resolve("encode.safetensors"))) {
            Map<String, Tensor> tensors = golden.model().tensors();
            float[] input = tensor(tensors, "input").toFloats();
            byte[] expected = tensor(tensors, type.name()).bytes().toArray(ValueLayout.JAVA_BYTE);
            byte[] bytes = new byte[expected.length];
            GgmlEncode.encode(type, MemorySegment.ofArray(input), input.length, MemorySegment.ofArray(bytes));
            assertArrayEquals(expected, bytes);
        }
    }

    @ParameterizedTest
    @CsvSource({"F16, 65519, 65520", "Q8_0, 8320912, 8321040", "Q4_0, 524152, 524160", "BF16, 3.38e38, 3.4e38"})
    void what_would_become_infinite_is_refused(GgufType type, float largest, float tooLarge) {
        float[] x = new float[64];
        byte[] bytes = new byte[1024];
        x[3] = -largest;
        GgmlEncode.encode(type, MemorySegment.ofArray(x), 64, MemorySegment.ofArray(bytes));
        float[] back = new float[64];
        GgmlDecode.decode(type, MemorySegment.ofArray(bytes), 0, 64, back);
        assertEquals(-largest, back[3], largest / 100);
        x[3] = -tooLarge;
        ArithmeticException e = assertThrows(
                ArithmeticException.class,
                () -> GgmlEncode.encode(type, MemorySegment.ofArray(x), 64, MemorySegment.ofArray(bytes)));
        assertTrue(String.valueOf(e.getMessage()).contains(" ends at "));
    }

    /** Every BF16 up to 60,000, which all types hold. */
    private static short[] everyBFloat16() {
        short[] all = new short[1 << 16];
        int n = 0;
        for (int bits = 0; bits < 1 << 16; bits++) {
            if (Math.abs(BFloat16.toFloat((short) bits)) <= 60_000) {
                all[n++] = (short) bits;
            }
        }
        return Arrays.copyOf(all, n / 256 * 256);
    }

    @ParameterizedTest
    @MethodSource("written")
    void bfloat16s_encode_to_the_bytes_of_their_floats(GgufType type) {
        short[] source = everyBFloat16();
        // an odd number where the type has no blocks
        int count = type.blockElements() == 1 ? source.length - 1 : source.length;
        float[] floats = new float[count];
        for (int i = 0; i < count; i++) {
            floats[i] = BFloat16.toFloat(source[i]);
        }
        byte[] expected = new byte[(int) type.bytes(count)];
        byte[] bytes = new byte[expected.length];
        int lost = GgmlEncode.encode(type, MemorySegment.ofArray(floats), count, MemorySegment.ofArray(expected));
        if (type == GgufType.F32) {
            assertThrows(
                    IllegalArgumentException.class,
                    () -> GgmlEncode.encode(
                            type, DType.BF16, MemorySegment.ofArray(source), count, MemorySegment.ofArray(bytes)));
            return;
        }
        assertEquals(
                lost,
                GgmlEncode.encode(
                        type, DType.BF16, MemorySegment.ofArray(source), count, MemorySegment.ofArray(bytes)));
        assertArrayEquals(expected, bytes);
    }

    @ParameterizedTest
    @CsvSource({"F16, Infinity", "F16, NaN", "Q8_0, -Infinity", "Q8_0, NaN"})
    void what_is_not_finite_is_refused_in_blocks_of_bfloat16s(GgufType type, float value) {
        short[] source = new short[64];
        source[37] = BFloat16.fromFloat(value);
        assertThrows(
                ArithmeticException.class,
                () -> GgmlEncode.encode(
                        type, DType.BF16, MemorySegment.ofArray(source), 64, MemorySegment.ofArray(new byte[128])));
    }

    @Test
    void blocks_of_q8_0_are_independent_of_how_many_are_encoded_at_once() {
        Random random = new Random(5);
        float[] x = new float[32 * 1000];
        for (int i = 0; i < x.length; i++) {
            // halves of steps too: the largest of every third block is 127
            x[i] = i / 32 % 3 == 0
                    ? (i % 32 == 7 ? -127 : random.nextInt(253) / 2f - 63)
                    : (float) random.nextGaussian();
        }
        byte[] all = new byte[34 * 1000];
        GgmlEncode.encode(GgufType.Q8_0, MemorySegment.ofArray(x), x.length, MemorySegment.ofArray(all));
        for (int block = 0; block < 1000; block++) {
            byte[] one = new byte[34];
            GgmlEncode.encode(
                    GgufType.Q8_0,
                    MemorySegment.ofArray(Arrays.copyOfRange(x, 32 * block, 32 * (block + 1))),
                    32,
                    MemorySegment.ofArray(one));
            assertArrayEquals(one, Arrays.copyOfRange(all, 34 * block, 34 * (block + 1)), "block " + block);
            for (int i = 0; block % 3 == 0 && i < 32; i++) {
                double v = x[32 * block + i]; // the scale is 1
                assertEquals(Math.signum(v) * Math.floor(Math.abs(v) + 0.5), one[2 + i], "of " + v);
            }
        }
    }

    @Test
    void blocks_whose_scale_becomes_zero_are_counted() {
        float[] x = new float[64];
        x[0] = 1e-3f; // over 6 less than half of the smallest scale, 2^-9
        x[16] = 1e-2f;
        x[40] = -1e-3f;
        byte[] bytes = new byte[36];
        assertEquals(2, GgmlEncode.encode(GgufType.NVFP4, MemorySegment.ofArray(x), 64, MemorySegment.ofArray(bytes)));
        float[] back = new float[64];
        GgmlDecode.decode(GgufType.NVFP4, MemorySegment.ofArray(bytes), 0, 64, back);
        assertEquals(0, back[0]);
        assertEquals(1e-2f, back[16], 2e-3f);
        assertEquals(0, GgmlEncode.encode(GgufType.MXFP4, MemorySegment.ofArray(x), 64, MemorySegment.ofArray(bytes)));
    }

    @Test
    void a_part_of_a_block_is_neither_read_nor_written() {
        MemorySegment block = MemorySegment.ofArray(new byte[34]);
        assertThrows(
                IllegalArgumentException.class, () -> GgmlDecode.decode(GgufType.Q8_0, block, 0, 31, new float[32]));
        assertThrows(
                IllegalArgumentException.class,
                () -> GgmlEncode.encode(GgufType.Q8_0, MemorySegment.ofArray(new float[32]), 31, block));
    }

    @Test
    void types_without_a_decoder_are_refused() {
        for (GgufType type : Set.of(GgufType.IQ1_S, GgufType.TQ1_0)) {
            MemorySegment block = MemorySegment.ofArray(new byte[type.blockBytes()]);
            assertThrows(
                    IllegalArgumentException.class,
                    () -> GgmlDecode.decode(type, block, 0, type.blockElements(), new float[256]));
        }
    }

    private static Tensor tensor(Map<String, Tensor> tensors, String name) {
        return Objects.requireNonNull(tensors.get(name), name);
    }
}
