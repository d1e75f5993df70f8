package dev.octet.converter.gguf;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.StreamOptions;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.gguf.GgufFile;
import dev.octet.formats.gguf.GgufHeader;
import dev.octet.formats.gguf.GgufTensor;
import dev.octet.formats.gguf.GgufType;
import dev.octet.formats.gguf.GgufWriter;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.ggml.GgmlDecode;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SequencedMap;
import java.util.function.Consumer;
import java.util.function.LongUnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Checkpoints to GGUF files and back, without the command line. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GgufRoundTripTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models/tiny-hf");
    private static final GgufExport.Tokenizer NO_TOKENIZER = GgufExport.Tokenizer.LEFT_OUT;

    @TempDir
    Path folder;

    private Path changed(String model, Consumer<ObjectNode> change) throws IOException {
        Path made = Files.createDirectories(folder.resolve("model"));
        Files.copy(MODELS.resolve(model).resolve("model.safetensors"), made.resolve("model.safetensors"));
        ObjectNode config = ModelConfig.read(MODELS.resolve(model)).orElseThrow();
        change.accept(config);
        ModelConfig.write(made.resolve(ModelConfig.FILE_NAME), config);
        return made;
    }

    private Path file() {
        return folder.resolve("model.gguf");
    }

    private GgufExport.Result write(Path model, GgufType type) throws IOException {
        return write(model, type, StreamOptions.defaults());
    }

    private GgufExport.Result write(Path model, GgufType type, StreamOptions options) throws IOException {
        try (CheckpointConverter opened = CheckpointConverter.open(model)) {
            return GgufExport.of(opened.checkpoint(), opened.stored(), type).write(file(), NO_TOKENIZER, options);
        }
    }

    private Map<String, GgufType> types() throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            return GgufFile.open(file(), arena).header().entries().stream()
                    .map(GgufHeader.Entry::tensor)
                    .collect(Collectors.toMap(GgufTensor::name, GgufTensor::type));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"llama", "mistral", "qwen2", "qwen3"})
    void a_checkpoint_there_and_back_has_every_bit_of_every_tensor(String model) throws IOException {
        write(MODELS.resolve(model), GgufType.F32);
        Path back = folder.resolve("back");
        try (GgufImport file = GgufImport.open(file())) {
            assertEquals(DType.F32, file.usualType());
            file.write(back, DType.F32);
        }
        assertSame(MODELS.resolve(model), back);
    }

    @Test
    void rotary_factors_of_no_published_model_are_refused() throws IOException {
        write(MODELS.resolve("llama3"), GgufType.F32); // original_max_position_embeddings 16, not 8192
        try (GgufImport file = GgufImport.open(file())) {
            UnsupportedModelException e =
                    assertThrows(UnsupportedModelException.class, () -> file.write(folder.resolve("back"), DType.F32));
            assertTrue(e.where().contains("rope_freqs.weight"), e.where());
        }
        assertFalse(Files.exists(folder.resolve("back")));
    }

    private static void assertSame(Path expected, Path made) throws IOException {
        try (ModelFile one = ModelFile.open(expected);
                ModelFile other = ModelFile.open(made)) {
            assertEquals(one.model().tensors().keySet(), other.model().tensors().keySet());
            for (Tensor t : one.model().tensors().values()) {
                assertEquals(
                        -1, t.bytes().mismatch(other.model().tensor(t.name()).bytes()), t.name());
            }
        }
    }

    @Test
    void rows_of_q_are_in_another_order_in_the_file() throws IOException {
        write(MODELS.resolve("llama"), GgufType.F32);
        try (Arena arena = Arena.ofConfined();
                ModelFile model = ModelFile.open(MODELS.resolve("llama"))) {
            GgufFile file = GgufFile.open(file(), arena);
            Tensor q = model.model().tensor("model.layers.1.self_attn.q_proj.weight");
            GgufHeader.Entry entry = file.header().entries().stream()
                    .filter(e -> e.tensor().name().equals("blk.1.attn_q.weight"))
                    .findFirst()
                    .orElseThrow();
            long row = q.bytes().byteSize() / q.shape().dim(0);
            long half = config("llama").path("head_dim").asInt() / 2;
            assertEquals( // the second row of the file is the first of the head's second half
                    -1, file.bytes(entry).asSlice(row, row).mismatch(q.bytes().asSlice(half * row, row)));
        }
    }

    private static ObjectNode config(String model) throws IOException {
        return ModelConfig.read(MODELS.resolve(model)).orElseThrow();
    }

    @ParameterizedTest
    @ValueSource(longs = {2, 4, 16, 128})
    void both_orders_of_rows_undo_each_other(long headRows) {
        LongUnaryOperator there = RowOrder.fromFile(headRows);
        LongUnaryOperator back = RowOrder.toFile(headRows);
        long[] rows = LongStream.range(0, 3 * headRows).toArray();
        assertEquals(
                Arrays.toString(rows),
                Arrays.toString(Arrays.stream(rows).map(there).map(back).toArray()));
        assertEquals(rows.length, Arrays.stream(rows).map(there).distinct().count());
    }

    @Test
    void gemma_2_comes_back_with_its_caps_where_its_scores_are_scaled_by_the_size_of_a_head() throws IOException {
        Path model = changed(
                "gemma2", c -> c.put("query_pre_attn_scalar", c.path("head_dim").asInt()));
        write(model, GgufType.F32);
        Path back = folder.resolve("back");
        try (GgufImport file = GgufImport.open(file())) {
            file.write(back, DType.F32);
        }
        ObjectNode config = ModelConfig.read(back).orElseThrow();
        for (String key : List.of(
                "attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar", "sliding_window")) {
            assertEquals(
                    ModelConfig.read(model).orElseThrow().path(key).asDouble(),
                    config.path(key).asDouble(),
                    key);
        }
        try (ModelFile one = ModelFile.open(model);
                ModelFile other = ModelFile.open(back)) {
            assertEquals(one.model().tensors().keySet(), other.model().tensors().keySet());
        }
    }

    @ParameterizedTest
    @CsvSource({"mistral, true", "qwen2-window, true", "llama, false"})
    void sliding_windows_are_left_out_with_a_note(String model, boolean noted) throws IOException {
        List<String> notes = write(MODELS.resolve(model), GgufType.F32).notes();
        assertEquals(
                noted, notes.stream().anyMatch(n -> n.matches(".*sliding_window \\d is left out")), notes.toString());
    }

    @Test
    void matrices_whose_rows_are_no_whole_blocks_are_f16_and_counted() throws IOException {
        List<String> notes = write(MODELS.resolve("mistral"), GgufType.Q8_0).notes();
        Map<String, GgufType> types = types();
        long halves = types.entrySet().stream()
                .filter(e -> e.getKey().startsWith("blk.") && e.getValue() == GgufType.F16)
                .count();
        assertTrue(halves > 0, types.toString());
        assertTrue(notes.stream().anyMatch(n -> n.startsWith(halves + " matrices are F16")), notes.toString());
        assertEquals(GgufType.F32, types.get("blk.0.attn_norm.weight"));
    }

    @ParameterizedTest
    @EnumSource(
            value = GgufType.class,
            names = {"F16", "F32", "Q8_0"})
    void matrices_in_several_pieces_are_the_same_for_any_number_of_threads(GgufType type) throws IOException {
        int rows = 1 << 13; // of 64 elements: two pieces and more
        Path model = changed("../../golden/gguf/models/llama", c -> c.put("vocab_size", rows));
        float[] values = new float[rows * 64];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) Math.sin(i);
        }
        try (Arena arena = Arena.ofConfined();
                ModelFile old = ModelFile.open(model.resolve("model.safetensors"))) {
            SequencedMap<String, Tensor> tensors = new LinkedHashMap<>();
            old.model().tensors().forEach((name, tensor) -> {
                boolean table = name.equals("model.embed_tokens.weight") || name.equals("lm_head.weight");
                tensors.put(name, table ? Tensor.ofFloats(arena, name, Shape.of(rows, 64), values) : tensor);
            });
            SafetensorsWriter.write(folder.resolve("wide.safetensors"), tensors, Map.of("format", "pt"));
        }
        Files.move(
                folder.resolve("wide.safetensors"),
                model.resolve("model.safetensors"),
                StandardCopyOption.REPLACE_EXISTING);
        write(model, type, StreamOptions.defaults().withThreads(1));
        byte[] one = Files.readAllBytes(file());
        write(model, type, StreamOptions.defaults().withThreads(3));
        assertArrayEquals(one, Files.readAllBytes(file()));
        try (Arena arena = Arena.ofConfined()) {
            GgufFile file = GgufFile.open(file(), arena);
            for (GgufHeader.Entry e : file.header().entries()) {
                if (e.tensor().name().equals("token_embd.weight")) {
                    float[] read = new float[values.length];
                    GgmlDecode.decode(type, file.bytes(e), 0, read.length, read);
                    assertArrayEquals(values, read, type == GgufType.F32 ? 0 : 0.005f);
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = GgufType.class,
            names = {"Q4_0", "MXFP4"})
    void tables_of_a_four_bit_file_have_eight_bits(GgufType type) throws IOException {
        Path model = MODELS.resolveSibling("../golden/gguf/models/llama");
        write(model, type);
        assertEquals(GgufType.Q8_0, types().get("token_embd.weight"));
        assertEquals(GgufType.Q8_0, types().get("output.weight"));
        assertEquals(type, types().get("blk.0.attn_v.weight"));
    }

    @Test
    void a_checkpoint_without_a_layer_that_its_configuration_has_is_refused() throws IOException {
        Path model = changed("llama", c -> c.put("num_hidden_layers", 3));
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> write(model, GgufType.F32));
        assertTrue(e.what().contains("3 layers has no 'model.layers.2."), e.what());
        assertFalse(Files.exists(file()));
    }

    @Test
    void an_untied_checkpoint_without_a_head_is_refused() throws IOException {
        Path model = withoutHead(config -> config.put("tie_word_embeddings", false));
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> write(model, GgufType.F32));
        assertTrue(e.what().contains("the checkpoint has no 'lm_head.weight'"), e.what());
        assertFalse(Files.exists(file()));
    }

    @Test
    void a_head_that_no_key_ties_is_not_tied() throws IOException {
        Path model = withoutHead(config -> config.remove("tie_word_embeddings"));
        assertThrows(MalformedModelException.class, () -> write(model, GgufType.F32));
    }

    @Test
    void a_tied_checkpoint_without_a_head_is_written() throws IOException {
        write(withoutHead(config -> config.put("tie_word_embeddings", true)), GgufType.F32);
        assertFalse(types().containsKey("output.weight"));
    }

    private Path withoutHead(Consumer<ObjectNode> change) throws IOException {
        Path model = changed("llama", change);
        Path file = model.resolve("model.safetensors");
        try (ModelFile whole = ModelFile.open(MODELS.resolve("llama"))) {
            Map<String, Tensor> tensors = new LinkedHashMap<>(whole.model().tensors());
            tensors.remove("lm_head.weight");
            SafetensorsWriter.write(file, tensors, Map.of("format", "pt"));
        }
        return model;
    }

    @Test
    void a_file_without_one_of_its_tensors_is_refused() throws IOException {
        write(MODELS.resolve("llama"), GgufType.F32);
        Path part = folder.resolve("part.gguf");
        try (Arena arena = Arena.ofConfined()) {
            GgufFile file = GgufFile.open(file(), arena);
            Map<GgufTensor, GgufHeader.Entry> kept = file.header().entries().stream()
                    .filter(e -> !e.tensor().name().equals("blk.1.ffn_down.weight"))
                    .collect(Collectors.toMap(GgufHeader.Entry::tensor, e -> e));
            GgufWriter.write(
                    part,
                    file.header().metadata(),
                    List.copyOf(kept.keySet()),
                    (t, sink) -> sink.write(file.bytes(java.util.Objects.requireNonNull(kept.get(t)))));
        }
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> GgufImport.open(part));
        assertTrue(e.what().contains("has no tensor 'blk.1.ffn_down.weight'"), e.what());
    }

    @Test
    void heads_of_an_odd_size_are_refused() throws IOException {
        Path model = changed("llama", c -> c.put("head_dim", 5));
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> write(model, GgufType.F32));
        assertTrue(e.what().contains("heads have 5 rows"), e.what());
    }

    @ParameterizedTest
    @EnumSource(PreTokenizer.class)
    void how_texts_are_split_is_recognised_from_what_is_written(PreTokenizer split) {
        assertEquals(split, PreTokenizer.of(split.json()).orElseThrow());
        assertEquals(split, PreTokenizer.named(split.written()).orElseThrow());
    }
}
