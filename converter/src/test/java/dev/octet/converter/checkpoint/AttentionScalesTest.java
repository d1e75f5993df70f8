package dev.octet.converter.checkpoint;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
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
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.layout.AttentionInput;
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
import java.lang.foreign.MemorySegment;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.BitSet;
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
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Static scales of attention and its cache, from statistics to what verify says of the written checkpoint. */
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

    /** The same, of each head: head h of the i-th has (i + h / 8) as its largest magnitude; four heads of queries, two of keys and values. */
    private static Map<String, TensorStatistics> seenByHead(String model) throws IOException {
        Map<String, TensorStatistics> tensors = seen(model);
        float next = 1;
        for (String attention : AttentionScales.attentions(MadeCheckpoint.names(source(model)))) {
            tensors.put(attention + ".q", ofHeads(next++, 4));
            tensors.put(attention + ".k", ofHeads(next++, 2));
            tensors.put(attention + ".v", ofHeads(next++, 2));
        }
        return tensors;
    }

    private static TensorStatistics ofHeads(float first, int heads) {
        float[] row = new float[2 * heads];
        for (int head = 0; head < heads; head++) {
            row[2 * head] = first / 2;
            row[2 * head + 1] = -(first + head / 8f);
        }
        return ofHeads(row, heads);
    }

    /** One token of heads of two elements. */
    private static TensorStatistics ofHeads(float[] row, int heads) {
        StatisticsAccumulator seen = new StatisticsAccumulator();
        seen.addWithJoinedHeads(MemorySegment.ofArray(row), row.length, BitSet.valueOf(new long[] {1}), heads, 2);
        return seen.snapshot();
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
        quantize(model, recipe, target, tensors, AttentionScheme.CACHE);
    }

    private void quantize(
            String model, Recipe recipe, String target, Map<String, TensorStatistics> tensors, AttentionScheme scheme)
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
                    converter.attentionScales(statistics, scheme),
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
        assertThrows(
                InvalidDataException.class,
                () -> AttentionScales.of(statistics(Map.of()), List.of(), AttentionScheme.CACHE, Optional.empty()));
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
                    Selection.ALL_LINEARS,
                    Map.of(),
                    converter.attentionScales(statistics(others), AttentionScheme.CACHE),
                    false,
                    false,
                    false);
            ConversionRequest goal = MadeCheckpoint.goal(Recipes.FP8_DYNAMIC, "compressed-tensors");
            StreamOptions options = MadeCheckpoint.threads(1);
            converter.run(converter.plan(goal, request, options), again, options);
        }
        assertEquals(10f, MadeCheckpoint.floats(again, LAYER + ".k_scale")[0]);
        try (Checkpoint written = Checkpoint.open(again)) {
            assertNull(written.tensor(LAYER + ".k_proj.k_scale"));
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = AttentionScheme.class,
            names = {"CACHE_PER_HEAD", "ALL", "ALL_PER_HEAD"})
    void every_input_of_a_scheme_has_one_scale_or_one_for_each_head(AttentionScheme scheme) throws IOException {
        quantize("llama", Recipes.FP8_DYNAMIC, "compressed-tensors", seenByHead("llama"), scheme);
        try (Checkpoint written = Checkpoint.open(out)) {
            float next = 1;
            for (String attention : AttentionScales.attentions(MadeCheckpoint.names(source("llama")))) {
                for (AttentionInput input : AttentionInput.values()) {
                    float first = next++;
                    String name = attention + "." + input.label() + "_scale";
                    StoredTensor scale = written.tensor(name);
                    if (!scheme.inputs().contains(input)) {
                        assertNull(scale, name);
                        continue;
                    }
                    int heads = input == AttentionInput.Q ? 4 : 2;
                    assertEquals(
                            scheme.perHead() ? Shape.of(heads, 1, 1) : Shape.of(1),
                            requireNonNull(scale, name).shape());
                    float[] values = MadeCheckpoint.floats(out, name);
                    for (int head = 0; head < values.length; head++) {
                        int largest = scheme.perHead() ? head : heads - 1;
                        assertEquals((first + largest / 8f) / 448, values[head], name);
                    }
                }
            }
        }
        assertEquals(List.of(), errors(verify("llama")));
    }

    @Test
    void a_group_for_the_class_of_attention_announces_scales_of_queries() throws IOException {
        quantize("qwen2", Recipes.NVFP4, "compressed-tensors", seenByHead("qwen2"), AttentionScheme.ALL_PER_HEAD);
        JsonNode quantization = MadeCheckpoint.json(out.resolve("config.json")).path("quantization_config");
        JsonNode group = quantization.path("config_groups").path("group_1");
        assertEquals("Qwen2Attention", group.path("targets").path(0).asText());
        assertEquals(1, group.path("targets").size());
        assertEquals(
                "attn_head", group.path("input_activations").path("strategy").asText());
        assertEquals(quantization.path("kv_cache_scheme"), group.path("input_activations"));
        assertTrue(group.path("weights").isNull());
        assertEquals("nvfp4-pack-quantized", quantization.path("format").asText());
    }

    @ParameterizedTest
    @CsvSource({
        "modelopt, CACHE_PER_HEAD, not one for each head",
        "modelopt, ALL, no scales of queries",
        "fp8, CACHE_PER_HEAD, not one for each head",
        "fp8, ALL_PER_HEAD, no scales of queries"
    })
    void a_layout_that_cannot_say_it_refuses_before_anything_is_written(
            String target, AttentionScheme scheme, String reason) throws IOException {
        Map<String, TensorStatistics> tensors = seenByHead("llama");
        InvalidOptionException refusal = assertThrows(
                InvalidOptionException.class, () -> quantize("llama", Recipes.CHECKPOINT_FP8, target, tensors, scheme));
        assertTrue(refusal.what().startsWith("layout " + target + " has "), refusal.what());
        assertTrue(refusal.what().contains(reason), refusal.what());
        assertFalse(Files.exists(out));
    }

    @Test
    void statistics_without_heads_are_refused_with_the_command_that_takes_them() throws IOException {
        Map<String, TensorStatistics> tensors = seen("llama");
        InvalidDataException refusal = assertThrows(
                InvalidDataException.class,
                () -> quantize(
                        "llama", Recipes.FP8_DYNAMIC, "compressed-tensors", tensors, AttentionScheme.CACHE_PER_HEAD));
        assertTrue(refusal.what().contains(LAYER + ".k, " + LAYER + ".v"), refusal.what());
        assertTrue(refusal.fix().contains("octet calibrate MODEL -o FILE --data DATA"), refusal.fix());
    }

    @Test
    void statistics_without_queries_are_refused_by_name() throws IOException {
        Map<String, TensorStatistics> tensors = seen("llama");
        InvalidDataException refusal = assertThrows(
                InvalidDataException.class,
                () -> quantize("llama", Recipes.FP8_DYNAMIC, "compressed-tensors", tensors, AttentionScheme.ALL));
        assertTrue(refusal.what().contains(LAYER + " (Q: missing)"), refusal.what());
    }

    @Test
    void statistics_of_another_number_of_heads_than_the_configuration_has_are_refused() throws IOException {
        Map<String, TensorStatistics> tensors = seenByHead("llama");
        tensors.put(LAYER + ".k", ofHeads(1, 4));
        InvalidDataException refusal = assertThrows(
                InvalidDataException.class,
                () -> quantize(
                        "llama", Recipes.FP8_DYNAMIC, "compressed-tensors", tensors, AttentionScheme.CACHE_PER_HEAD));
        assertTrue(refusal.what().contains(LAYER + " (K: 4 heads, config.json says 2)"), refusal.what());
    }

    @Test
    void a_model_whose_heads_are_unknown_is_refused() throws IOException {
        Map<String, TensorStatistics> tensors = seenByHead("llama");
        InvalidDataException refusal = assertThrows(
                InvalidDataException.class,
                () -> AttentionScales.of(
                        statistics(tensors),
                        AttentionScales.attentions(MadeCheckpoint.names(source("llama"))),
                        AttentionScheme.CACHE_PER_HEAD,
                        HeadCounts.of(new ObjectMapper().readTree("{\"hidden_size\": 32}"))));
        assertTrue(refusal.what().contains("does not say how many heads"), refusal.what());
        assertTrue(refusal.fix().contains("num_key_value_heads"), refusal.fix());
    }

    @Test
    void a_head_of_nothing_but_zeros_has_the_scale_of_the_layer() throws IOException {
        Map<String, TensorStatistics> tensors = seenByHead("llama");
        tensors.put(LAYER + ".v", ofHeads(new float[] {0, 0, 0.5f, -7}, 2));
        quantize("llama", Recipes.FP8_DYNAMIC, "compressed-tensors", tensors, AttentionScheme.CACHE_PER_HEAD);
        assertArrayEquals(new float[] {7f / 448, 7f / 448}, MadeCheckpoint.floats(out, LAYER + ".v_scale"));
    }

    @ParameterizedTest
    @CsvSource({
        "{}, names no class in architectures",
        "{\"architectures\": [\"Remarkable\"]}, the class of the attention in Remarkable is unknown"
    })
    void a_model_whose_attention_has_no_known_class_is_refused(String config, String reason) throws IOException {
        Path model = folder.resolve("model");
        Files.createDirectories(model);
        for (String file : List.of("model.safetensors")) {
            Files.copy(source("llama").resolve(file), model.resolve(file));
        }
        Files.writeString(model.resolve("config.json"), config);
        UnsupportedModelException refusal = assertThrows(
                UnsupportedModelException.class,
                () -> quantize(
                        model.toString(),
                        Recipes.FP8_DYNAMIC,
                        "compressed-tensors",
                        seenByHead("llama"),
                        AttentionScheme.ALL));
        assertTrue(refusal.what().contains(reason), refusal.what());
        assertFalse(Files.exists(out));
    }

    @Test
    void attention_without_a_projection_that_readers_know_it_by_is_refused() throws IOException {
        Map<String, TensorStatistics> tensors = new LinkedHashMap<>();
        for (String attention : AttentionScales.attentions(MadeCheckpoint.names(source("bert")))) {
            AttentionScheme.ALL.inputs().forEach(i -> tensors.put(attention + "." + i.label(), of(1, -2)));
        }
        assertEquals(6, tensors.size());
        UnsupportedModelException refusal = assertThrows(
                UnsupportedModelException.class,
                () -> quantize("bert", Recipes.FP8_DYNAMIC, "compressed-tensors", tensors, AttentionScheme.ALL));
        assertTrue(refusal.what().contains("BertForMaskedLM has none"), refusal.what());
    }

    @Test
    void a_change_of_recipe_keeps_scales_of_heads_and_what_announces_them() throws IOException {
        quantize("llama", Recipes.FP8_DYNAMIC, "compressed-tensors", seenByHead("llama"), AttentionScheme.ALL_PER_HEAD);
        Path converted = folder.resolve("converted");
        MadeCheckpoint.run(
                out, MadeCheckpoint.convert("compressed-tensors", Optional.of(Recipes.FP8_WEIGHT_ONLY)), converted);
        for (String name : MadeCheckpoint.names(out)) {
            if (name.endsWith(".q_scale") || name.endsWith(".k_scale") || name.endsWith(".v_scale")) {
                assertArrayEquals(MadeCheckpoint.floats(out, name), MadeCheckpoint.floats(converted, name), name);
            }
        }
        JsonNode before = MadeCheckpoint.json(out.resolve("config.json")).path("quantization_config");
        JsonNode after = MadeCheckpoint.json(converted.resolve("config.json")).path("quantization_config");
        assertEquals(before.path("kv_cache_scheme"), after.path("kv_cache_scheme"));
        assertEquals(
                before.path("config_groups").path("group_1"),
                after.path("config_groups").path("group_1"));
    }

    @ParameterizedTest
    @CsvSource({"modelopt, ALL, q_scale", "modelopt, CACHE_PER_HEAD, k_scale", "fp8, ALL_PER_HEAD, k_scale"})
    void a_conversion_to_a_layout_that_cannot_say_it_is_refused_with_the_tensor(
            String target, AttentionScheme scheme, String label) throws IOException {
        quantize("llama", Recipes.CHECKPOINT_FP8, "compressed-tensors", seenByHead("llama"), scheme);
        UnsupportedModelException refusal = assertThrows(
                UnsupportedModelException.class,
                () -> MadeCheckpoint.run(
                        out, MadeCheckpoint.convert(target, Optional.empty()), folder.resolve("converted")));
        assertTrue(refusal.what().startsWith("layout " + target + " has "), refusal.what());
        assertTrue(refusal.where().contains("self_attn." + label), refusal.where());
        assertFalse(Files.exists(folder.resolve("converted")));
    }

    @Test
    void dequantising_drops_all_of_them_and_says_so() throws IOException {
        quantize("llama", Recipes.FP8_DYNAMIC, "compressed-tensors", seenByHead("llama"), AttentionScheme.ALL_PER_HEAD);
        Path plain = folder.resolve("plain");
        MadeCheckpoint.run(out, new ConversionRequest.Dequantize(DType.BF16, false), plain);
        assertTrue(MadeCheckpoint.names(plain).stream().noneMatch(n -> n.endsWith("_scale")));
        assertFalse(MadeCheckpoint.json(plain.resolve("config.json")).has("quantization_config"));
        List<String> notes = MadeCheckpoint.plan(out, new ConversionRequest.Dequantize(DType.BF16, false))
                .notes();
        assertTrue(
                notes.contains("left out " + LAYER + ".q_scale: it scales queries of 8-bit floats"), notes.toString());
    }

    @Test
    void new_scales_of_the_cache_alone_leave_no_scales_of_queries() throws IOException {
        quantize("llama", Recipes.FP8_DYNAMIC, "compressed-tensors", seenByHead("llama"), AttentionScheme.ALL_PER_HEAD);
        Path again = folder.resolve("again");
        try (CheckpointConverter converter = CheckpointConverter.open(out)) {
            CheckpointConverter.Request request = new CheckpointConverter.Request(
                    Selection.ALL_LINEARS,
                    Map.of(),
                    converter.attentionScales(statistics(seen("llama")), AttentionScheme.CACHE),
                    false,
                    false,
                    false);
            StreamOptions options = MadeCheckpoint.threads(1);
            ConversionRequest goal = MadeCheckpoint.goal(Recipes.FP8_DYNAMIC, "compressed-tensors");
            converter.run(converter.plan(goal, request, options), again, options);
        }
        assertTrue(MadeCheckpoint.names(again).stream().noneMatch(n -> n.endsWith("q_scale")));
        JsonNode quantization =
                MadeCheckpoint.json(again.resolve("config.json")).path("quantization_config");
        assertEquals(
                "tensor", quantization.path("kv_cache_scheme").path("strategy").asText());
        assertEquals(1, quantization.path("config_groups").size());
    }

    /** The written checkpoint with another tensor. */
    private void put(Tensor tensor) throws IOException {
        Path file = out.resolve("model.safetensors");
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        try (Arena arena = Arena.ofConfined()) {
            try (Checkpoint written = Checkpoint.open(out)) {
                for (StoredTensor t : written.tensors().values()) {
                    tensors.put(t.name(), new Tensor(t.spec(), written.read(t, arena)));
                }
            }
            tensors.put(tensor.name(), tensor);
            SafetensorsWriter.write(file, tensors, Map.of("format", "pt"));
        }
    }

    @Test
    void scales_of_which_some_are_of_heads_and_others_not_are_refused() throws IOException {
        quantize("llama", Recipes.CHECKPOINT_FP8, "compressed-tensors", seen("llama"));
        try (Arena arena = Arena.ofConfined()) {
            put(Tensor.ofFloats(arena, LAYER + ".k_scale", Shape.of(2, 1, 1), 0.5f, 0.25f));
        }
        UnsupportedModelException refusal = assertThrows(
                UnsupportedModelException.class,
                () -> MadeCheckpoint.plan(out, MadeCheckpoint.convert("compressed-tensors", Optional.empty())));
        assertTrue(refusal.what().contains(LAYER + ".k_scale F32 [2, 1, 1]"), refusal.what());
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 65_537})
    void a_scale_of_more_heads_than_any_model_has_is_refused(int heads) throws IOException {
        quantize(
                "llama",
                Recipes.FP8_DYNAMIC,
                "compressed-tensors",
                seenByHead("llama"),
                AttentionScheme.CACHE_PER_HEAD);
        try (Arena arena = Arena.ofConfined()) {
            put(Tensor.ofFloats(arena, LAYER + ".k_scale", Shape.of(heads, 1, 1), new float[heads]));
        }
        UnsupportedModelException refusal = assertThrows(
                UnsupportedModelException.class,
                () -> MadeCheckpoint.plan(out, MadeCheckpoint.convert("compressed-tensors", Optional.empty())));
        assertTrue(refusal.what().contains("has " + heads + " numbers"), refusal.what());
    }

    @ParameterizedTest
    @CsvSource({
        "CACHE_PER_HEAD, k_scale, '1', kv-scale-shape",
        "CACHE_PER_HEAD, v_scale, '4,1,1', kv-scale-shape",
        "ALL_PER_HEAD, q_scale, '2,1,1', kv-scale-shape",
        "ALL, q_scale, '4,1,1', kv-scale-shape",
        "CACHE, k_scale, '2,1,1', kv-scale-shape"
    })
    void verify_finds_a_scale_of_another_form_than_the_configuration_says(
            AttentionScheme scheme, String label, String shape, String rule) throws IOException {
        quantize("llama", Recipes.FP8_DYNAMIC, "compressed-tensors", seenByHead("llama"), scheme);
        long[] dims = Arrays.stream(shape.split(",")).mapToLong(Long::parseLong).toArray();
        float[] values = new float[(int) dims[0]];
        Arrays.fill(values, 0.02f);
        try (Arena arena = Arena.ofConfined()) {
            put(Tensor.ofFloats(arena, LAYER + "." + label, Shape.of(dims), values));
        }
        List<Finding> found = verify("llama").findings().stream()
                .filter(f -> f.severity() == Severity.ERROR && !f.rule().equals("method-supported"))
                .toList();
        assertEquals(List.of(rule), found.stream().map(Finding::rule).toList());
        assertEquals(LAYER + "." + label, found.getFirst().places().getFirst().name());
    }
}
