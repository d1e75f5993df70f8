package dev.octet.trainer.data;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeSet;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SamplesTest {
    @TempDir
    Path folder;

    private static ValueInfo input(String name, DType dtype, Dim... dims) {
        return new ValueInfo(name, new TensorType(dtype, List.of(dims)));
    }

    private static Feed feed(ValueInfo... inputs) {
        return new Feed(Arrays.asList(inputs), Optional.of("labels"), -100, Optional.empty(), Optional.empty());
    }

    private static final Feed XY = feed(input("x", DType.F32, Dim.of("n"), Dim.of(2)));

    private static Tensor tensor(Map<String, Tensor> tensors, String name) {
        return Objects.requireNonNull(tensors.get(name), name);
    }

    private Path npz(Tensor... tensors) throws IOException {
        Path file = folder.resolve("data.npz");
        try (NpzWriter out = NpzWriter.stored(file)) {
            for (Tensor t : tensors) {
                out.add(t);
            }
            out.commit();
        }
        return file;
    }

    private static Tensor x(float... values) {
        return Tensor.ofFloats(Arena.ofAuto(), "x", Shape.of(values.length / 2, 2), values);
    }

    private static Tensor labels(long... values) {
        return Tensor.ofLongs(Arena.ofAuto(), "labels", Shape.of(values.length), values);
    }

    @Test
    void arrays_give_the_rows_asked_for_from_either_format() throws IOException {
        Tensor x = x(0, 1, 10, 11, 20, 21);
        Tensor labels = labels(5, 6, 7);
        Path safetensors = folder.resolve("data.safetensors");
        Map<String, Tensor> both = new LinkedHashMap<>();
        both.put("x", x);
        both.put("labels", labels);
        SafetensorsWriter.write(safetensors, both, Map.of());
        for (Samples samples :
                List.of(ArraySamples.npz(npz(x, labels), XY), ArraySamples.safetensors(safetensors, XY))) {
            try (samples;
                    Arena arena = Arena.ofConfined()) {
                assertEquals(3, samples.count());
                Map<String, Tensor> batch = samples.gather(new long[] {2, 0}, arena);
                assertArrayEquals(new float[] {20, 21, 0, 1}, tensor(batch, "x").toFloats());
                assertArrayEquals(new long[] {7, 5}, tensor(batch, "labels").toLongs());
            }
        }
    }

    @Test
    void arrays_that_do_not_fit_are_refused_with_what_would() throws IOException {
        refused(npz(x(1, 2)), "lacks the arrays [labels]");
        refused(npz(x(1, 2), labels(1, 2)), "2 samples");
        refused(npz(x(), labels()), "there are no samples");
        Tensor wide = Tensor.ofFloats(Arena.ofAuto(), "x", Shape.of(1, 3), 1, 2, 3);
        refused(npz(wide, labels(1)), "does not fit the input");
        refused(npz(labels(1, 2).withName("x"), labels(1, 2)), "does not fit the input");
    }

    @Test
    void token_types_that_the_data_does_not_have_are_zero() throws IOException {
        Feed bert = feed(
                input("input_ids", DType.I64, Dim.of("b"), Dim.of("s")),
                input("token_type_ids", DType.I64, Dim.of("b"), Dim.of("s")));
        Tensor ids = Tensor.ofLongs(Arena.ofAuto(), "input_ids", Shape.of(2, 3), 1, 2, 3, 4, 5, 6);
        Tensor types = Tensor.ofLongs(Arena.ofAuto(), "token_type_ids", Shape.of(2, 3), 0, 0, 1, 0, 1, 1);
        try (Arena arena = Arena.ofConfined()) {
            try (Samples without = ArraySamples.npz(npz(ids, labels(5, 6)), bert)) {
                Map<String, Tensor> batch = without.gather(new long[] {1}, arena);
                assertArrayEquals(
                        new long[] {0, 0, 0}, tensor(batch, "token_type_ids").toLongs());
            }
            try (Samples with = ArraySamples.npz(npz(ids, types, labels(5, 6)), bert)) {
                Map<String, Tensor> batch = with.gather(new long[] {1}, arena);
                assertArrayEquals(
                        new long[] {0, 1, 1}, tensor(batch, "token_type_ids").toLongs());
            }
        }
    }

    private static void refused(Path file, String what) {
        InvalidDataException e = assertThrows(InvalidDataException.class, () -> ArraySamples.npz(file, XY));
        assertTrue(e.what().contains(what), e.what());
    }

    @Test
    void a_value_that_is_no_number_is_refused_where_it_is_drawn() throws IOException {
        try (Samples samples = ArraySamples.npz(npz(x(0, 1, 2, Float.NaN), labels(1, 2)), XY);
                Arena arena = Arena.ofConfined()) {
            assertEquals(2, samples.gather(new long[] {0}, arena).size());
            InvalidDataException e =
                    assertThrows(InvalidDataException.class, () -> samples.gather(new long[] {0, 1}, arena));
            assertEquals("sample 1 of array 'x' has the value NaN at element 1", e.what());
        }
    }

    private Path tokens(int width, int... values) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(values.length * width).order(ByteOrder.LITTLE_ENDIAN);
        for (int v : values) {
            if (width == 2) {
                bytes.putShort((short) v);
            } else {
                bytes.putInt(v);
            }
        }
        return Files.write(folder.resolve("t.bin"), bytes.array());
    }

    private static final Feed LM = feed(
            input("input_ids", DType.I64, Dim.of("b"), Dim.of("s")),
            input("attention_mask", DType.I64, Dim.of("b"), Dim.of("s")),
            input("position_ids", DType.I32, Dim.of("b"), Dim.of("s")));

    @Test
    void tokens_are_cut_into_sequences_of_either_width() throws IOException {
        for (DType type : List.of(DType.U16, DType.U32)) {
            Path file = tokens(type.bits() / 8, 1, 2, 3, 60_000, 5, 6, 7);
            try (Samples samples = TokenSamples.open(file, 3, type, LM);
                    Arena arena = Arena.ofConfined()) {
                assertEquals(2, samples.count());
                Map<String, Tensor> batch = samples.gather(new long[] {1, 0}, arena);
                assertArrayEquals(
                        new long[] {60_000, 5, 6, 1, 2, 3},
                        tensor(batch, "input_ids").toLongs());
                assertArrayEquals(
                        new long[] {60_000, 5, 6, 1, 2, 3},
                        tensor(batch, "labels").toLongs());
                assertArrayEquals(
                        new long[] {1, 1, 1, 1, 1, 1},
                        tensor(batch, "attention_mask").toLongs());
                assertEquals(DType.I32, tensor(batch, "position_ids").dtype());
                assertEquals(2, tensor(batch, "position_ids").bytes().get(Tensor.I32_LE, 8));
            }
        }
    }

    @Test
    void token_files_that_cannot_be_are_refused() throws IOException {
        Path file = tokens(2, 1, 2, 3);
        assertThrows(InvalidDataException.class, () -> TokenSamples.open(file, 4, DType.U16, LM));
        assertThrows(InvalidDataException.class, () -> TokenSamples.open(file, 1, DType.U32, LM));
        InvalidDataException e =
                assertThrows(InvalidDataException.class, () -> TokenSamples.open(file, 1, DType.U16, XY));
        assertTrue(e.what().contains("'x', which tokens cannot feed"), e.what());
    }

    private static Texts texts(long[]... rows) {
        return new Texts() {
            @Override
            public String name() {
                return "texts.jsonl";
            }

            @Override
            public long count() {
                return rows.length;
            }

            @Override
            public String digest() {
                return "d";
            }

            @Override
            public List<long[]> tokens(long from, int size) {
                return Arrays.asList(rows).subList((int) from, (int) from + size);
            }

            @Override
            public Optional<Labels> labels(String key) {
                return Optional.empty();
            }

            @Override
            public long endOfText() {
                return 9;
            }

            @Override
            public long largestToken() {
                return 11;
            }

            @Override
            public void close() {}
        };
    }

    @Test
    void texts_are_padded_to_a_multiple_and_padding_does_not_count() throws IOException {
        Texts texts = texts(new long[] {4, 5, 6}, new long[] {7}, new long[] {1, 2, 3, 4, 5, 6, 7});
        try (Samples samples = new TextSamples(texts, "f", LM, 7, 4);
                Arena arena = Arena.ofConfined()) {
            Map<String, Tensor> batch = samples.gather(new long[] {0, 1}, arena);
            assertArrayEquals(
                    new long[] {4, 5, 6, 0, 7, 0, 0, 0},
                    tensor(batch, "input_ids").toLongs());
            assertArrayEquals(
                    new long[] {1, 1, 1, 0, 1, 0, 0, 0},
                    tensor(batch, "attention_mask").toLongs());
            assertArrayEquals(
                    new long[] {4, 5, 6, -100, 7, -100, -100, -100},
                    tensor(batch, "labels").toLongs());
            assertEquals(
                    Shape.of(1, 7),
                    tensor(samples.gather(new long[] {2}, arena), "input_ids").shape());
        }
    }

    /** {@link #LM} for a model with an embedding of so many rows. */
    private static Feed knowing(long rows) {
        return new Feed(
                LM.inputs(), LM.labels(), -100, Optional.of(new Vocabulary("wte.weight", rows)), Optional.empty());
    }

    @Test
    void packed_texts_are_joined_by_their_end_and_cut_into_sequences_without_padding() throws IOException {
        // the third text has its end already, the fourth is empty
        Texts texts = texts(new long[] {4, 5, 6}, new long[] {7}, new long[] {1, 2, 9}, new long[0], new long[] {3, 8});
        try (Samples samples = PackedSamples.of(texts, "f", LM, 4);
                Arena arena = Arena.ofConfined()) {
            assertEquals(3, samples.count());
            Map<String, Tensor> batch = samples.gather(new long[] {1, 0, 2}, arena);
            long[] expected = {7, 9, 1, 2, 4, 5, 6, 9, 9, 3, 8, 9};
            assertArrayEquals(expected, tensor(batch, "input_ids").toLongs());
            assertArrayEquals(expected, tensor(batch, "labels").toLongs());
            assertArrayEquals(
                    new long[] {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                    tensor(batch, "attention_mask").toLongs());
        }
    }

    @Test
    void packed_texts_longer_than_a_chunk_of_memory_come_out_as_they_went_in() throws IOException {
        long[] longText = new long[(1 << 20) + 5];
        for (int i = 0; i < longText.length; i++) {
            longText[i] = i % 7;
        }
        try (Samples samples = PackedSamples.of(texts(longText), "f", LM, 1000);
                Arena arena = Arena.ofConfined()) {
            assertEquals(1048, samples.count());
            Map<String, Tensor> batch = samples.gather(new long[] {1047}, arena);
            assertArrayEquals(
                    Arrays.copyOfRange(longText, 1_047_000, 1_048_000),
                    tensor(batch, "input_ids").toLongs());
        }
    }

    @Test
    void too_little_text_for_one_sequence_is_refused() {
        InvalidDataException e = assertThrows(
                InvalidDataException.class, () -> PackedSamples.of(texts(new long[] {4, 5, 6}), "f", LM, 5));
        assertEquals("the texts have 4 tokens, but one sample takes 5", e.what());
    }

    @Test
    void a_token_beyond_the_embedding_is_refused_with_both_numbers_and_its_text() throws IOException {
        Texts texts = texts(new long[] {4, 5}, new long[] {1, 10});
        String what = "token 10 is out of range: the model's embedding 'wte.weight' has 10 rows";
        InvalidDataException packed =
                assertThrows(InvalidDataException.class, () -> PackedSamples.of(texts, "f", knowing(10), 2));
        InvalidDataException padded =
                assertThrows(InvalidDataException.class, () -> new TextSamples(texts, "f", knowing(10), 7, 1));
        Path file = tokens(2, 1, 2, 10);
        InvalidDataException stream =
                assertThrows(InvalidDataException.class, () -> TokenSamples.open(file, 1, DType.U16, knowing(10)));
        for (InvalidDataException e : List.of(packed, padded)) {
            assertEquals(what, e.what());
            assertEquals("f, text 1 (from 0)", e.where());
        }
        assertEquals(what, stream.what());
        assertEquals(file + ", token at position 2 (from 0)", stream.where());
        PackedSamples.of(texts, "f", knowing(11), 2).close();
        // a tokenizer that knows more than any text has is not a fault
        new TextSamples(texts, "f", knowing(11), 7, 1).close();
        TokenSamples.open(file, 1, DType.U16, knowing(11)).close();
    }

    @Test
    void the_end_of_a_text_beyond_the_embedding_is_refused() {
        InvalidDataException e = assertThrows(
                InvalidDataException.class, () -> PackedSamples.of(texts(new long[] {4, 5}), "f", knowing(9), 2));
        assertEquals("f, end-of-text token", e.where());
    }

    private static MicroBatches batches(int count, int size, boolean shuffle, long seed) throws IOException {
        long[][] rows = new long[count][1];
        TextSamples samples = new TextSamples(texts(rows), "f", LM, 4, 1);
        return shuffle ? MicroBatches.shuffled(samples, size, seed) : MicroBatches.inOrder(samples, size);
    }

    private static List<Long> epoch(MicroBatches batches, long epoch) {
        List<Long> rows = new ArrayList<>();
        for (long i = 0; i < batches.perEpoch(); i++) {
            for (long row : batches.rows(epoch * batches.perEpoch() + i)) {
                rows.add(row);
            }
        }
        return rows;
    }

    @Test
    void each_epoch_has_its_own_order_and_drops_the_incomplete_batch() throws IOException {
        MicroBatches batches = batches(11, 3, true, 1);
        assertEquals(3, batches.perEpoch());
        List<Long> first = epoch(batches, 0);
        List<Long> second = epoch(batches, 1);
        assertEquals(9, new TreeSet<>(first).size());
        assertEquals(9, new TreeSet<>(second).size());
        assertNotEquals(first, second);
        assertNotEquals(first, epoch(batches(11, 3, true, 2), 0));
        assertEquals(List.of(0L, 1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L), epoch(batches(11, 3, false, 1), 5));
    }

    @Test
    void any_batch_is_the_same_whatever_was_drawn_before() throws IOException {
        MicroBatches through = batches(100, 7, true, 9);
        for (long i = 0; i < 60; i++) {
            assertArrayEquals(batches(100, 7, true, 9).rows(i), through.rows(i), "batch " + i);
        }
    }

    @Test
    void fewer_samples_than_a_batch_are_refused() {
        InvalidDataException e = assertThrows(InvalidDataException.class, () -> batches(2, 3, true, 1));
        assertEquals("there are 2 samples, but a batch takes 3", e.what());
    }
}
