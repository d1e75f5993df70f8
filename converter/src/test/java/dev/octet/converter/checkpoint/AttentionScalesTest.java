package dev.octet.converter.checkpoint;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.verify.Consumer;
import dev.octet.converter.verify.Finding;
import dev.octet.converter.verify.Severity;
import dev.octet.converter.verify.Verification;
import dev.octet.converter.verify.Verifier;
import dev.octet.converter.verify.VerifyOptions;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.layout.AttentionScheme;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.DataPart;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsAccumulator;
import dev.octet.quant.statistics.TensorStatistics;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.FloatBuffer;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Static scales of the KV cache, from statistics to what verify says of the written checkpoint. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AttentionScalesTest {
    private static final String LAYER = "model.layers.1.self_attn";
    private static final Set<Consumer> ENGINES = Set.of(Consumer.VLLM, Consumer.SGLANG, Consumer.TENSORRT_LLM);

    @TempDir
    Path folder;

    private Path out;

    @BeforeEach
    void name() {
        out = folder.resolve("out");
    }

    private static Path source(String model) {
        return MadeCheckpoint.TESTDATA.resolve(model);
    }

    /** Statistics of all Linears and of all keys and values: the i-th has i as its largest magnitude. */
    private static Map<String, TensorStatistics> seen(String model) throws IOException {
        Map<String, TensorStatistics> tensors = new LinkedHashMap<>();
        float next = 1;
        for (String name : MadeCheckpoint.names(source(model))) {
            if (name.endsWith("_proj.weight")) {
                tensors.put(name.replace(".weight", ""), of(next / 3, -next++, 0));
            }
            if (name.endsWith("k_proj.weight")) {
                String attention = name.replace(".k_proj.weight", "");
                tensors.put(attention + ".k", of(-next++, 0.5f));
                tensors.put(attention + ".v", of(next++, 0));
            }
        }
        return tensors;
    }

    private static TensorStatistics of(float... values) {
        StatisticsAccumulator seen = new StatisticsAccumulator();
        seen.add(FloatBuffer.wrap(values));
        return seen.snapshot();
    }

    private static Statistics statistics(Map<String, TensorStatistics> tensors) {
        return Statistics.of("ab", new DataPart("cd", "data", 1, 1), tensors);
    }

    private void quantize(String model, Recipe recipe, String target, Map<String, TensorStatistics> tensors)
            throws IOException {
        try (CheckpointConverter converter = CheckpointConverter.open(source(model))) {
            Statistics statistics = statistics(tensors);
            boolean staticInputs = recipe.equals(Recipes.CHECKPOINT_FP8);
            CheckpointConverter.Request request = new CheckpointConverter.Request(
                    Selection.ALL_LINEARS,
                    staticInputs
                            ? converter
                                    .inputScales(statistics, new Absmax(), recipe)
                                    .byModule()
                            : Map.of(),
                    converter.attentionScales(statistics, AttentionScheme.CACHE),
                    false,
                    false,
                    false);
            ConversionRequest goal = new ConversionRequest.Quantize(
                    recipe, MadeCheckpoint.layout(target), new LayoutOptions(DType.F32, false, staticInputs));
            StreamOptions options = MadeCheckpoint.threads(2);
            converter.run(converter.plan(goal, request, options), out, options);
        }
    }

    private Verification verify(String original) throws IOException {
        VerifyOptions options = VerifyOptions.defaults()
                .withConsumers(ENGINES)
                .withOriginal(source(original))
                .withDeep(true);
        return Verifier.verify(out, options);
    }

    private static List<String> errors(Verification verification) {
        return verification.findings().stream()
                .filter(f -> f.severity() == Severity.ERROR)
                // not every engine has a method for every scheme, however sound the checkpoint
                .filter(f -> !f.rule().equals("method-supported"))
                .map(Finding::toString)
                .toList();
    }

    @ParameterizedTest
    @CsvSource({
        "llama, compressed-tensors, k_scale, v_scale, 1",
        "llama-128, compressed-tensors, k_scale, v_scale, 1",
        "qwen2, compressed-tensors, k_scale, v_scale, 1",
        "llama, fp8, k_scale, v_scale, 1",
        "llama, modelopt, k_proj.k_scale, v_proj.v_scale, 0",
        "llama-128, modelopt, k_proj.k_scale, v_proj.v_scale, 0",
        "qwen2, modelopt, k_proj.k_scale, v_proj.v_scale, 0"
    })
    void scales_are_amax_over_448_under_the_names_of_the_target(
            String model, String target, String key, String value, int rank) throws IOException {
        Map<String, TensorStatistics> tensors = seen(model);
        quantize(model, Recipes.CHECKPOINT_FP8, target, tensors);
        int layers = 0;
        try (Checkpoint written = Checkpoint.open(out)) {
            for (String attention : AttentionScales.attentions(MadeCheckpoint.names(source(model)))) {
                layers++;
                for (String side : List.of("k", "v")) {
                    String name = attention + "." + (side.equals("k") ? key : value);
                    StoredTensor scale = requireNonNull(written.tensor(name), name);
                    assertEquals(DType.F32, scale.dtype(), name);
                    assertEquals(rank, scale.shape().rank(), name);
                    float amax =
                            requireNonNull(tensors.get(attention + "." + side)).amax();
                    assertEquals(amax / 448, MadeCheckpoint.floats(out, name)[0], name);
                }
            }
        }
        assertEquals(2, layers);
    }

    @ParameterizedTest
    @CsvSource({
        "llama, fp8, compressed-tensors",
        "llama-128, fp8, compressed-tensors",
        "qwen2, fp8, compressed-tensors",
        "qwen2, fp8-dynamic, compressed-tensors",
        "llama-128, fp8-block, compressed-tensors",
        "llama, fp8, modelopt",
        "llama-128, fp8, modelopt",
        "qwen2, fp8, modelopt",
        "llama-128, fp8-dynamic, modelopt"
    })
    void verify_finds_no_error_in_what_is_written_for_engines(String model, String recipe, String target)
            throws IOException {
        quantize(model, recipe(recipe), target, seen(model));
        assertEquals(List.of(), errors(verify(model)));
    }

    private static Recipe recipe(String name) {
        return Recipes.CHECKPOINT.stream()
                .filter(r -> r.name().equals(name))
                .findFirst()
                .orElseThrow();
    }

    @Test
    void verify_finds_no_error_for_vllm_in_layout_fp8_which_cannot_announce_a_cache() throws IOException {
        quantize("qwen2", Recipes.CHECKPOINT_FP8, "fp8", seen("qwen2"));
        VerifyOptions options = VerifyOptions.defaults().withConsumers(Set.of(Consumer.VLLM, Consumer.SGLANG));
        assertEquals(List.of(), errors(Verifier.verify(out, options)));
    }

    @Test
    void compressed_tensors_announces_the_scheme() throws IOException {
        quantize("qwen2", Recipes.CHECKPOINT_FP8, "compressed-tensors", seen("qwen2"));
        JsonNode scheme = MadeCheckpoint.json(out.resolve("config.json"))
                .path("quantization_config")
                .path("kv_cache_scheme");
        assertEquals(8, scheme.path("num_bits").asInt());
        assertEquals("float", scheme.path("type").asText());
        assertEquals("tensor", scheme.path("strategy").asText());
        assertFalse(scheme.path("dynamic").asBoolean(true));
        assertTrue(scheme.path("symmetric").asBoolean(false));
    }

    @Test
    void modelopt_announces_the_cache_in_both_files() throws IOException {
        quantize("qwen2", Recipes.CHECKPOINT_FP8, "modelopt", seen("qwen2"));
        JsonNode beside = MadeCheckpoint.json(out.resolve("hf_quant_config.json"));
        assertEquals(
                "FP8", beside.path("quantization").path("kv_cache_quant_algo").asText());
        JsonNode scheme = MadeCheckpoint.json(out.resolve("config.json"))
                .path("quantization_config")
                .path("kv_cache_scheme");
        assertEquals(8, scheme.path("num_bits").asInt());
        assertFalse(scheme.path("dynamic").asBoolean(true));
    }

    @ParameterizedTest
    @ValueSource(strings = {"compressed-tensors", "modelopt"})
    void inputs_of_fused_weights_have_one_scale_beside_those_of_the_cache(String target) throws IOException {
        quantize("qwen2", Recipes.CHECKPOINT_FP8, target, seen("qwen2"));
        List<List<String>> groups = List.of(
                List.of("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
                List.of("mlp.gate_proj", "mlp.up_proj"));
        for (List<String> group : groups) {
            Set<Float> scales = new HashSet<>();
            for (String module : group) {
                scales.add(MadeCheckpoint.floats(out, "model.layers.0." + module + ".input_scale")[0]);
            }
            assertEquals(1, scales.size(), group.toString());
        }
    }

    @Test
    void without_the_wish_nothing_is_said_of_a_cache() throws IOException {
        MadeCheckpoint.run(source("qwen2"), MadeCheckpoint.goal(Recipes.FP8_DYNAMIC, "compressed-tensors"), out);
        assertTrue(MadeCheckpoint.json(out.resolve("config.json"))
                .path("quantization_config")
                .path("kv_cache_scheme")
                .isNull());
        assertTrue(MadeCheckpoint.names(out).stream().noneMatch(n -> n.endsWith("k_scale")));
    }

    @ParameterizedTest
    @CsvSource({"MISSING, K: missing", "ZEROS, V: nothing but zeros", "NAN, K: 1 NaN or infinite elements"})
    void layers_without_sound_statistics_are_refused_by_name(String fault, String reason) throws IOException {
        Map<String, TensorStatistics> tensors = seen("llama");
        switch (fault) {
            case "MISSING" -> tensors.remove(LAYER + ".k");
            case "ZEROS" -> tensors.put(LAYER + ".v", of(0, 0));
            default -> tensors.put(LAYER + ".k", of(1, Float.NaN));
        }
        InvalidDataException refusal = assertThrows(
                InvalidDataException.class,
                () -> AttentionScales.of(
                        statistics(tensors),
                        AttentionScales.attentions(MadeCheckpoint.names(source("llama"))),
                        AttentionScheme.CACHE,
                        Optional.empty()));
        assertTrue(refusal.what().endsWith("1 of 2 attention layers: " + LAYER + " (" + reason + ")"), refusal.what());
    }

    @Test
    void a_model_without_attention_is_refused() {
        assertThrows(InvalidDataException.class, () -> AttentionScales.of(statistics(Map.of()), List.of(), AttentionScheme.CACHE, Optional.empty()));
    }

    /** The written checkpoint with its tensors renamed; a name becomes nothing to be left out. */
    private void rename(UnaryOperator<String> names) throws IOException {
        Path file = out.resolve("model.safetensors");
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        try (Arena arena = Arena.ofConfined()) {
            try (Checkpoint written = Checkpoint.open(out)) {
                for (StoredTensor t : written.tensors().values()) {
                    String name = names.apply(t.name());
                    if (!name.isEmpty()) {
                        tensors.put(
                                name, new Tensor(new TensorSpec(name, t.dtype(), t.shape()), written.read(t, arena)));
                    }
                }
            }
            SafetensorsWriter.write(file, tensors, Map.of("format", "pt"));
        }
    }

    @ParameterizedTest
    @CsvSource({
        "compressed-tensors, " + LAYER + ".v_scale, ''",
        "compressed-tensors, " + LAYER + ".k_scale, " + LAYER + ".key_scale",
        "modelopt, " + LAYER + ".k_proj.k_scale, ''",
        "modelopt, " + LAYER + ".v_proj.v_scale, " + LAYER + ".v_proj.cache_scale",
        "fp8, " + LAYER + ".k_scale, ''",
        "fp8, " + LAYER + ".v_scale, " + LAYER + ".v_cache_scale"
    })
    void verify_finds_a_layer_whose_scale_is_missing_or_has_a_wrong_name(String target, String name, String becomes)
            throws IOException {
        quantize("llama", Recipes.CHECKPOINT_FP8, target, seen("llama"));
        rename(n -> n.equals(name) ? becomes : n);
        Finding finding = verify("llama").findings().stream()
                .filter(f -> f.rule().equals("kv-scale-missing"))
                .findFirst()
                .orElseThrow();
        assertEquals(Severity.ERROR, finding.severity());
        assertEquals(LAYER, finding.places().getFirst().name());
    }

    @ParameterizedTest
    @CsvSource({
        "compressed-tensors, modelopt, k_proj.k_scale, v_proj.v_scale",
        "modelopt, compressed-tensors, k_scale, v_scale",
        "modelopt, fp8, k_scale, v_scale"
    })
    void converting_brings_the_scales_to_the_names_of_the_other_layout(String from, String to, String key, String value)
            throws IOException {
        Map<String, TensorStatistics> tensors = seen("llama");
        quantize("llama", Recipes.CHECKPOINT_FP8, from, tensors);
        Path converted = folder.resolve("converted");
        MadeCheckpoint.run(out, MadeCheckpoint.convert(to, Optional.empty()), converted);
        assertEquals(
                requireNonNull(tensors.get(LAYER + ".k")).amax() / 448,
                MadeCheckpoint.floats(converted, LAYER + "." + key)[0]);
        assertEquals(
                requireNonNull(tensors.get(LAYER + ".v")).amax() / 448,
                MadeCheckpoint.floats(converted, LAYER + "." + value)[0]);
        long scales = MadeCheckpoint.names(converted).stream()
                .filter(n -> n.endsWith(".k_scale") || n.endsWith(".v_scale"))
                .count();
        assertEquals(4, scales);
    }

    @Test
    void one_scale_for_both_sides_becomes_two() throws IOException {
        quantize("llama", Recipes.CHECKPOINT_FP8, "compressed-tensors", seen("llama"));
        rename(n -> n.endsWith(".v_scale") ? "" : n.replace(".k_scale", ".kv_scale"));
        Path converted = folder.resolve("converted");
        MadeCheckpoint.run(out, MadeCheckpoint.convert("modelopt", Optional.empty()), converted);
        assertEquals(
                MadeCheckpoint.floats(out, LAYER + ".kv_scale")[0],
                MadeCheckpoint.floats(converted, LAYER + ".k_proj.k_scale")[0]);
        assertEquals(
                MadeCheckpoint.floats(out, LAYER + ".kv_scale")[0],
                MadeCheckpoint.floats(converted, LAYER + ".v_proj.v_scale")[0]);
    }

    @Test
    void new_scales_take_the_place_of_those_that_were_there() throws IOException {
        quantize("llama", Recipes.CHECKPOINT_FP8, "modelopt", seen("llama"));
        Map<String, TensorStatistics> others = seen("llama");
        others.put(LAYER + ".k", of(4480));
        Path again = folder.resolve("again");
        try (CheckpointConverter converter = CheckpointConverter.open(out)) {
            CheckpointConverter.Request request = new CheckpointConverter.Request(
                    Selection.ALL_LINEARS, Map.of(), converter.attentionScales(statistics(others), AttentionScheme.CACHE), false, false, false);
            ConversionRequest goal = MadeCheckpoint.goal(Recipes.FP8_DYNAMIC, "compressed-tensors");
            StreamOptions options = MadeCheckpoint.threads(1);
            converter.run(converter.plan(goal, request, options), again, options);
        }
        assertEquals(10f, MadeCheckpoint.floats(again, LAYER + ".k_scale")[0]);
        try (Checkpoint written = Checkpoint.open(again)) {
            assertNull(written.tensor(LAYER + ".k_proj.k_scale"));
        }
    }

    @Test
    void a_scale_for_each_head_stays_as_it_is() throws IOException {
        quantize("llama", Recipes.CHECKPOINT_FP8, "compressed-tensors", seen("llama"));
        Path file = out.resolve("model.safetensors");
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        try (Arena arena = Arena.ofConfined()) {
            try (Checkpoint written = Checkpoint.open(out)) {
                for (StoredTensor t : written.tensors().values()) {
                    tensors.put(t.name(), new Tensor(t.spec(), written.read(t, arena)));
                }
            }
            String name = LAYER + ".k_scale";
            tensors.put(name, Tensor.ofFloats(arena, name, Shape.of(2, 1, 1), 0.5f, 0.25f));
            SafetensorsWriter.write(file, tensors, Map.of("format", "pt"));
        }
        Path converted = folder.resolve("converted");
        MadeCheckpoint.run(out, MadeCheckpoint.convert("compressed-tensors", Optional.empty()), converted);
        assertEquals(2, MadeCheckpoint.floats(converted, LAYER + ".k_scale").length);
    }
}
