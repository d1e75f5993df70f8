package dev.octet.converter;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.converter.checkpoint.AttentionScales;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.NpzDataset;
import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.formats.npy.NpzFile;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.layout.AttentionInput;
import dev.octet.quant.layout.AttentionScheme;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.TensorStatistics;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Statistics of Hugging Face checkpoints, next to what hooks in transformers see ({@code testdata/make/calibration_golden.py}). */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class ModuleCalibrationTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path GOLDEN = TESTDATA.resolve("golden/calibration");
    private static final CalibrationOptions OPTIONS = CalibrationOptions.defaults();

    @TempDir
    Path folder;

    /** The golden tokens for a model that may want token types. */
    private Path data(List<InputSpec> inputs) throws IOException {
        Path path = folder.resolve("data.npz");
        try (Arena arena = Arena.ofConfined();
                NpzFile tokens = NpzFile.open(GOLDEN.resolve("tokens.npz"));
                NpzWriter w = NpzWriter.stored(path)) {
            for (InputSpec in : inputs) {
                boolean given = tokens.names().contains(in.name());
                w.add(
                        given
                                ? tokens.read(in.name(), arena)
                                : Tensor.ofLongs(arena, in.name(), Shape.of(6, 9), new long[54]));
            }
            w.commit();
        }
        return path;
    }

    private Statistics calibrate(String model, CalibrationOptions options) throws IOException {
        try (ModelSource source =
                        ModelSource.open(TESTDATA.resolve("models/tiny-hf").resolve(model));
                Converter converter = Converter.of(source.model())) {
            List<InputSpec> inputs = InputSpec.of(converter.source());
            try (Dataset samples = NpzDataset.open(data(inputs), inputs)) {
                return converter.calibrateModules(samples, source.digest(), options);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"llama", "qwen3", "mistral", "gpt2", "bert-cls"})
    void every_module_reads_what_it_reads_in_transformers_and_padding_does_not_count(String model) throws IOException {
        Map<String, TensorStatistics> actual =
                calibrate(model, OPTIONS.withMemory(10_000)).tensors();
        JsonNode expected =
                new ObjectMapper().readTree(GOLDEN.resolve(model + ".json").toFile());
        assertTrue(expected.size() > 10);
        for (Map.Entry<String, JsonNode> e : expected.properties()) {
            // a tied output layer has the name of its weight
            boolean tied = e.getKey().equals("lm_head") && !actual.containsKey("lm_head");
            String name = !tied ? e.getKey() : model.equals("gpt2") ? "transformer.wte" : "model.embed_tokens";
            TensorStatistics t = actual.get(name);
            assertNotNull(t, name + " is not in " + actual.keySet());
            assertEquals(e.getValue().path("count").asLong(), t.count(), name);
            double amax = e.getValue().path("amax").asDouble();
            assertEquals(amax, t.amax(), 1e-5 * amax, name);
            double squares = e.getValue().path("sumOfSquares").asDouble();
            assertEquals(squares, t.sumOfSquares(), 1e-5 * squares, name);
        }
    }

    @ParameterizedTest
    @CsvSource({"llama3", "llama-linear", "qwen2", "qwen2-window", "gpt2-hub", "bert", "bert-bare", "t5", "deberta"})
    void pieces_and_the_whole_give_the_same_bits(String model) throws IOException {
        Statistics whole = calibrate(model, OPTIONS.withMemory(Long.MAX_VALUE));
        assertEquals(whole, calibrate(model, OPTIONS.withMemory(0)));
        assertEquals(whole, calibrate(model, OPTIONS.withMemory(12_000)));
    }

    /** DeBERTa's Linears of queries and keys also turn the embeddings of 12 distances, each of 16 elements, in both batches. */
    @Test
    void a_module_that_is_called_twice_has_the_statistics_of_both_calls() throws IOException {
        Map<String, TensorStatistics> shared =
                calibrate("deberta", OPTIONS.withBatchSize(3)).tensors();
        TensorStatistics queries = requireNonNull(shared.get("deberta.encoder.layer.0.attention.self.query_proj"));
        TensorStatistics values = requireNonNull(shared.get("deberta.encoder.layer.0.attention.self.value_proj"));
        assertEquals(values.count() + 2 * 12 * 16, queries.count());
        assertTrue(queries.amax() >= values.amax());
        assertTrue(
                shared.keySet().stream().noneMatch(name -> name.contains("#")),
                shared.keySet().toString());
    }

    @Test
    void operands_of_attention_do_not_hide_linears_of_the_same_name() throws IOException {
        Map<String, TensorStatistics> all = calibrate("t5", OPTIONS).tensors();
        TensorStatistics q = requireNonNull(all.get("encoder.block.0.layer.0.SelfAttention.q"));
        assertEquals(q, all.get("encoder.block.0.layer.0.SelfAttention.k"), "both read the same");
    }

    @ParameterizedTest
    @ValueSource(strings = {"llama", "qwen3", "gpt2-hub"})
    void scales_of_the_cache_are_found_under_the_names_of_the_checkpoint(String model) throws IOException {
        Statistics statistics = calibrate(model, OPTIONS);
        try (CheckpointConverter converter =
                CheckpointConverter.open(TESTDATA.resolve("models/tiny-hf").resolve(model))) {
            AttentionScales scales = converter.attentionScales(statistics, AttentionScheme.CACHE);
            assertEquals(2, scales.byAttention().size());
        }
    }

    /** Both run in F32 and add in another order, which moves the last bits of a few thousandths of a percent. */
    @ParameterizedTest
    @ValueSource(strings = {"gemma", "gemma2", "llama", "llama-linear", "llama3", "mistral", "qwen2", "qwen3"})
    void scales_of_attention_are_those_of_torch_for_any_number_of_heads(String model) throws IOException {
        JsonNode golden = new ObjectMapper()
                .readTree(TESTDATA.resolve("golden/attention/scales.json").toFile())
                .path(model)
                .path("scales");
        Statistics statistics = calibrate(model, OPTIONS);
        try (CheckpointConverter converter =
                CheckpointConverter.open(TESTDATA.resolve("models/tiny-hf").resolve(model))) {
            AttentionScales heads = converter.attentionScales(statistics, AttentionScheme.ALL_PER_HEAD);
            AttentionScales whole = converter.attentionScales(statistics, AttentionScheme.ALL);
            assertEquals(golden.size(), heads.byAttention().size());
            for (Map.Entry<String, JsonNode> layer : golden.properties()) {
                for (AttentionInput input : AttentionInput.values()) {
                    String name = layer.getKey() + "." + input.label();
                    List<Float> found = requireNonNull(heads.byAttention().get(layer.getKey()))
                            .get(input);
                    JsonNode wanted = layer.getValue().path(input.label());
                    assertNotNull(found, name);
                    assertEquals(wanted.size(), found.size(), name);
                    float largest = 0;
                    for (int head = 0; head < found.size(); head++) {
                        float scale = wanted.get(head).floatValue();
                        assertEquals(scale, found.get(head), 1e-5 * scale, name);
                        largest = Math.max(largest, found.get(head));
                    }
                    assertEquals(
                            List.of(largest),
                            requireNonNull(whole.byAttention().get(layer.getKey()))
                                    .get(input),
                            name);
                }
            }
        }
    }

    @Test
    void a_model_with_another_number_in_it_or_another_configuration_has_another_digest() throws IOException {
        Path models = TESTDATA.resolve("models/tiny-hf");
        try (ModelSource a = ModelSource.open(models.resolve("llama"));
                ModelSource again = ModelSource.open(models.resolve("llama/model.safetensors"));
                ModelSource b = ModelSource.open(models.resolve("llama3"))) {
            assertEquals(a.digest(), again.digest());
            assertTrue(!a.digest().equals(b.digest()));
        }
    }
}
