package dev.octet.converter.data;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class DatasetTest {
    private static final Path TOKENIZER = Path.of(System.getProperty("octet.testdata"), "tokenizer", "words.json");
    private static final List<Dim> TOKENS = List.of(Dim.of("batch"), Dim.of("length"));
    private static final List<InputSpec> BERT = List.of(
            new InputSpec("input_ids", DType.I64, TOKENS),
            new InputSpec("attention_mask", DType.I64, TOKENS),
            new InputSpec("token_type_ids", DType.I64, TOKENS));

    @TempDir
    Path folder;

    private Path lines(String... lines) throws IOException {
        return Files.writeString(folder.resolve("text.jsonl"), String.join("\n", lines));
    }

    private TextDataset text(List<InputSpec> inputs, int maxLength, String... lines) throws IOException {
        return TextDataset.open(lines(lines), TOKENIZER, inputs, new TextOptions(maxLength));
    }

    @Test
    void a_batch_of_text_is_padded_to_its_longest_with_the_tokenizers_own_padding() throws IOException {
        try (Dataset d = text(
                BERT,
                256,
                "{\"text\": \"The cat sat\"}",
                "",
                "{\"id\": 7, \"text\": \"A dog ran far and far\"}\r\n\n")) {
            Batch b = d.batch(0, 2);
            assertEquals(2, d.count());
            assertEquals(Shape.of(2, 8), b.tensor("input_ids").shape());
            // [CLS] the cat sat [SEP] and padding; ids in testdata/tokenizer/words.json
            assertArrayEquals(
                    new long[] {7, 10, 11, 13, 8, 4, 4, 4, 7, 9, 12, 16, 17, 18, 17, 8},
                    b.tensor("input_ids").toLongs());
            assertArrayEquals(
                    new long[] {1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
                    b.tensor("attention_mask").toLongs());
            assertArrayEquals(new long[16], b.tensor("token_type_ids").toLongs());
            BitSet kept = b.mask().orElseThrow().kept();
            assertEquals(13, kept.cardinality());
            assertEquals(Shape.of(1, 5), d.batch(0, 1).tensor("input_ids").shape());
        }
    }

    @Test
    void long_text_is_cut() throws IOException {
        try (Dataset d = text(BERT, 4, "{\"text\": \"the cat sat on the mat\"}")) {
            assertArrayEquals(
                    new long[] {7, 10, 11, 8}, d.batch(0, 1).tensor("input_ids").toLongs());
        }
    }

    @Test
    void only_what_the_model_wants_is_fed_in_its_type_and_fixed_length() throws IOException {
        List<Dim> fixed = List.of(Dim.of("batch"), Dim.of(6));
        List<InputSpec> inputs =
                List.of(new InputSpec("input_ids", DType.I32, fixed), new InputSpec("position_ids", DType.I64, fixed));
        try (Dataset d = text(inputs, 256, "{\"text\": \"cat\"}", "{\"text\": \"the cat sat on the mat\"}")) {
            Batch b = d.batch(0, 1);
            assertEquals(
                    List.of("input_ids", "position_ids"),
                    List.copyOf(b.tensors().keySet()));
            assertEquals(DType.I32, b.tensor("input_ids").dtype());
            assertEquals(Shape.of(1, 6), b.tensor("input_ids").shape());
            assertArrayEquals(
                    new long[] {0, 1, 2, 0, 0, 0}, b.tensor("position_ids").toLongs());
            assertEquals(Shape.of(1, 6), d.batch(1, 1).tensor("input_ids").shape());
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "{\"text\": \"a\"}~{\"text\": 5}      | line 2 | VALUE_NUMBER_INT",
                "{\"text\": \"a\"}~~{\"txt\": \"b\"}  | line 3 | no \"text\"",
                "{\"text\": \"a\"}~[1]                | line 2 | not a JSON object",
                "{\"text\": \"a\"                     | line 1 | not JSON",
                "{\"text\": \"a\"} {\"text\": \"b\"}  | line 1 | follows",
                "{\"text\": \"a\", \"text\": \"b\"}   | line 1 | the key 'text' is there twice",
                "hello                                | line 1 | not JSON",
                "~ ~                                  | text.jsonl | the file has no samples"
            })
    void a_bad_line_is_refused_with_its_number(String text, String where, String what) {
        InvalidDataException e = assertThrows(InvalidDataException.class, () -> text(BERT, 256, text.split("~", -1)));
        assertTrue(e.where().contains(where), e.where());
        assertTrue(e.what().contains(what), e.what());
    }

    @Test
    void text_cannot_feed_pixels_or_floats() {
        for (InputSpec input : List.of(
                new InputSpec("pixel_values", DType.F32, null),
                new InputSpec("input_ids", DType.F32, TOKENS),
                new InputSpec("input_ids", DType.I64, List.of(Dim.of("n"))))) {
            InvalidDataException e =
                    assertThrows(InvalidDataException.class, () -> text(List.of(input), 256, "{\"text\": \"a\"}"));
            assertTrue(e.what().contains(input.name()));
        }
    }

    @Test
    void a_file_that_is_no_tokenizer_is_refused() throws IOException {
        Path text = lines("{\"text\": \"a\"}");
        assertThrows(InvalidDataException.class, () -> TextDataset.open(text, text, BERT, TextOptions.defaults()));
        assertThrows(
                NoSuchFileException.class,
                () -> TextDataset.open(text, folder.resolve("none.json"), BERT, TextOptions.defaults()));
    }

    @Test
    void the_digest_tells_data_and_reading_apart_but_not_names() throws IOException {
        String line = "{\"text\": \"the cat\"}";
        try (Dataset one = text(BERT, 256, line, line)) {
            Path copy = Files.copy(folder.resolve("text.jsonl"), folder.resolve("copy.jsonl"));
            try (Dataset same = TextDataset.open(copy, TOKENIZER, BERT, new TextOptions(256));
                    Dataset shorter = TextDataset.open(copy, TOKENIZER, BERT, new TextOptions(5))) {
                assertEquals(one.digest(), same.digest());
                assertNotEquals(one.digest(), shorter.digest());
                assertNotEquals(one.digest(), one.slice(0, 1).digest());
                assertNotEquals(one.slice(1, 1).digest(), one.slice(0, 1).digest());
                assertEquals(one.digest(), one.slice(0, 2).digest());
            }
        }
    }

    @Test
    void a_slice_gives_its_own_samples_and_refuses_more_than_there_are() throws IOException {
        try (Dataset d = text(BERT, 256, "{\"text\": \"a\"}", "{\"text\": \"cat\"}", "{\"text\": \"dog\"}")) {
            Dataset slice = d.slice(1, 2);
            assertArrayEquals(
                    new long[] {7, 12, 8}, slice.batch(1, 1).tensor("input_ids").toLongs());
            assertThrows(IndexOutOfBoundsException.class, () -> slice.batch(1, 2));
            assertThrows(InvalidDataException.class, () -> d.slice(2, 2));
            assertThrows(InvalidDataException.class, () -> d.slice(0, 0));
        }
    }

    private Path npz(Tensor... arrays) throws IOException {
        Path path = folder.resolve("data.npz");
        try (NpzWriter w = NpzWriter.deflated(path)) {
            for (Tensor a : arrays) {
                w.add(a);
            }
            w.commit();
        }
        return path;
    }

    private static Tensor floats(String name, long... dims) {
        float[] values = new float[(int) Shape.of(dims).elementCount()];
        for (int i = 0; i < values.length; i++) {
            values[i] = i;
        }
        return Tensor.ofFloats(Arena.ofAuto(), name, Shape.of(dims), values);
    }

    private static final List<InputSpec> IMAGE =
            List.of(new InputSpec("x", DType.F32, List.of(Dim.of("n"), Dim.of(3))));

    @Test
    void rows_of_an_npz_come_in_any_order() throws IOException {
        try (Dataset d = NpzDataset.open(npz(floats("x", 5, 3)), IMAGE)) {
            assertEquals(5, d.count());
            assertArrayEquals(
                    new float[] {0, 1, 2, 3, 4, 5}, d.batch(0, 2).tensor("x").toFloats());
            assertArrayEquals(new float[] {6, 7, 8}, d.batch(2, 1).tensor("x").toFloats());
            assertArrayEquals(
                    new float[] {12, 13, 14}, d.batch(4, 1).tensor("x").toFloats());
            assertArrayEquals(new float[] {3, 4, 5}, d.batch(1, 1).tensor("x").toFloats());
            assertThrows(IndexOutOfBoundsException.class, () -> d.batch(4, 2));
        }
    }

    @Test
    void arrays_that_do_not_fit_the_model_are_refused_with_the_reason() throws IOException {
        record Case(String what, List<Tensor> arrays) {}
        for (Case c : List.of(
                new Case("has no array [x]", List.of(floats("y", 5, 3))),
                new Case("array [y], which the model does not take", List.of(floats("x", 5, 3), floats("y", 5, 3))),
                new Case("x F32 [5, 3, 1] does not fit", List.of(floats("x", 5, 3, 1))),
                new Case("x F32 [5, 4] does not fit", List.of(floats("x", 5, 4))),
                new Case(
                        "x I64 [1, 3] does not fit",
                        List.of(Tensor.ofLongs(Arena.ofAuto(), "x", Shape.of(1, 3), 1, 2, 3))),
                new Case("the arrays have no samples", List.of(floats("x", 0, 3))))) {
            Path path = npz(c.arrays.toArray(Tensor[]::new));
            InvalidDataException e = assertThrows(InvalidDataException.class, () -> NpzDataset.open(path, IMAGE));
            assertTrue(e.what().contains(c.what), e.what());
            assertTrue(e.where().contains("data.npz"));
        }
        Path uneven = npz(floats("x", 5, 3), floats("y", 4, 3));
        List<InputSpec> two = List.of(IMAGE.getFirst(), new InputSpec("y", DType.F32, null));
        assertThrows(InvalidDataException.class, () -> NpzDataset.open(uneven, two));
    }

    private static final List<InputSpec> SPEECH =
            List.of(IMAGE.getFirst(), new InputSpec("rate", DType.I64, List.of()));

    private static Tensor rate(Shape shape, long... values) {
        return Tensor.ofLongs(Arena.ofAuto(), "rate", shape, values);
    }

    @Test
    void an_input_that_is_one_number_takes_an_array_of_rank_0_for_all_samples() throws IOException {
        try (Dataset d = NpzDataset.open(npz(floats("x", 5, 3), rate(Shape.SCALAR, 16_000)), SPEECH)) {
            assertEquals(5, d.count());
            for (int size : new int[] {1, 2, 3}) {
                Batch b = d.batch(2, size);
                assertEquals(Shape.of(size, 3), b.tensor("x").shape());
                assertEquals(Shape.SCALAR, b.tensor("rate").shape());
                assertArrayEquals(new long[] {16_000}, b.tensor("rate").toLongs());
            }
        }
    }

    @Test
    void an_input_that_is_one_number_takes_one_for_each_sample() throws IOException {
        try (Dataset d = NpzDataset.open(npz(floats("x", 3, 3), rate(Shape.of(3), 8, 8, 8)), SPEECH)) {
            assertArrayEquals(new long[] {8}, d.batch(0, 3).tensor("rate").toLongs());
            assertEquals(Shape.SCALAR, d.batch(0, 3).tensor("rate").shape());
            assertTrue(d.largestBatch() >= 3);
        }
    }

    @Test
    void samples_with_different_numbers_are_batches_of_their_own() throws IOException {
        try (Dataset d = NpzDataset.open(npz(floats("x", 3, 3), rate(Shape.of(3), 8, 8, 16)), SPEECH)) {
            assertEquals(1, d.largestBatch());
            assertEquals(1, d.slice(1, 2).largestBatch());
            assertArrayEquals(new long[] {16}, d.batch(2, 1).tensor("rate").toLongs());
            assertArrayEquals(new long[] {8}, d.batch(0, 2).tensor("rate").toLongs());
            InvalidDataException e = assertThrows(InvalidDataException.class, () -> d.batch(1, 2));
            assertTrue(e.what().contains("samples 1 to 2") && e.what().contains("'rate'"), e.what());
        }
    }

    @Test
    void numbers_alone_are_one_sample() throws IOException {
        List<InputSpec> inputs = List.of(SPEECH.getLast());
        try (Dataset d = NpzDataset.open(npz(rate(Shape.SCALAR, 5)), inputs)) {
            assertEquals(1, d.count());
        }
    }

    @Test
    void an_array_of_rank_2_is_no_number_and_one_of_rank_0_no_rows() throws IOException {
        InvalidDataException matrix = assertThrows(
                InvalidDataException.class,
                () -> NpzDataset.open(npz(floats("x", 5, 3), rate(Shape.of(5, 1), 1, 2, 3, 4, 5)), SPEECH));
        assertTrue(matrix.what().contains("rate I64 [5, 1] does not fit"), matrix.what());
        InvalidDataException number =
                assertThrows(InvalidDataException.class, () -> NpzDataset.open(npz(floats("x")), IMAGE));
        assertTrue(number.what().contains("x F32 [] does not fit"), number.what());
        InvalidDataException uneven = assertThrows(
                InvalidDataException.class,
                () -> NpzDataset.open(npz(floats("x", 5, 3), rate(Shape.of(4), 1, 1, 1, 1)), SPEECH));
        assertTrue(uneven.what().contains("'rate' has 4"), uneven.what());
    }

    @Test
    void the_mask_keeps_what_is_not_zero_and_knows_which_values_have_tokens() {
        Arena arena = Arena.ofAuto();
        Tensor longs = Tensor.ofLongs(arena, "attention_mask", Shape.of(2, 3), 1, 1, 0, 1, 0, 0);
        Tensor floats = Tensor.ofFloats(arena, "attention_mask", Shape.of(2, 3), 1, 1, -0f, 1, 0, 0);
        TokenMask mask = TokenMask.of(longs).orElseThrow();
        assertEquals(mask, TokenMask.of(floats).orElseThrow());
        assertEquals(BitSet.valueOf(new long[] {0b001011}), mask.kept());
        assertEquals(8L, mask.rowLength(Shape.of(2, 3, 8)).orElseThrow());
        assertEquals(8L, mask.rowLength(Shape.of(2, 3, 4, 2)).orElseThrow());
        assertEquals(8L, mask.rowLength(Shape.of(6, 8)).orElseThrow());
        assertTrue(mask.rowLength(Shape.of(2, 3)).isEmpty());
        assertTrue(mask.rowLength(Shape.of(2, 4, 3)).isEmpty());
        assertTrue(mask.rowLength(Shape.SCALAR).isEmpty());
        assertTrue(TokenMask.of(Tensor.ofLongs(arena, "attention_mask", Shape.of(1, 1, 2), 1, 0))
                .isEmpty());
    }
}
