package dev.octet.quant.layout;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Configurations next to those that the owners of the formats write: testdata/golden/layout. */
@DisplayNameGeneration(ReplaceUnderscores.class)
class LayoutConfigTest {
    private static final List<String> KEPT = List.of("lm_head", "model.layers.0.mlp.gate");

    /** What pydantic puts in for compressed-tensors when it is absent; observers say how scales were found and read nothing. */
    private static final Set<String> INFORMATIONAL = Set.of("observer", "observer_kwargs");

    private static JsonNode golden(String layout) throws IOException {
        return new ObjectMapper()
                .readTree(Path.of(System.getProperty("octet.testdata"), "golden", "layout", layout + ".json")
                        .toFile());
    }

    private static Stream<String> cases(String layout) throws IOException {
        return golden(layout).properties().stream().map(Map.Entry::getKey);
    }

    static Stream<String> compressedTensors() throws IOException {
        return cases("compressed-tensors");
    }

    static Stream<String> fp8() throws IOException {
        return cases("fp8");
    }

    static Stream<String> modelopt() throws IOException {
        return cases("modelopt");
    }

    /** What a layout writes for a case like {@code fp8+static+kv}. */
    private record Written(ObjectNode config, Map<String, ObjectNode> files) {
        static Written of(String layout, String name) {
            return of(layout, name, List.of("model.layers.0.self_attn.q_proj"), KEPT);
        }

        static Written of(String layout, String name, List<String> quantized, List<String> kept) {
            List<String> words = Arrays.asList(name.split("\\+"));
            Recipe recipe = Recipes.CHECKPOINT.stream()
                    .filter(r -> r.name().equals(words.getFirst()))
                    .findFirst()
                    .orElseThrow();
            LayoutOptions options = new LayoutOptions(DType.F32, words.contains("ue8m0"), words.contains("static"));
            Layout to = Layouts.named(layout).orElseThrow();
            OperandSpec scheme = to.scheme(recipe, options).orElseThrow();
            List<StoredWeight> weights = quantized.stream()
                    .map(m -> to.place(m + ".weight", Shape.of(256, 256), scheme, options))
                    .toList();
            boolean queries = words.contains("attention");
            AttentionScheme whole =
                    queries ? AttentionScheme.ALL : words.contains("kv") ? AttentionScheme.CACHE : AttentionScheme.NONE;
            AttentionScheme attention = words.contains("heads") ? whole.forEachHead() : whole;
            ObjectNode config =
                    Specs.json("{'architectures': ['LlamaForCausalLM'], 'rope_theta': 10000.0, 'nested': {'a': [1]}}");
            Map<String, ObjectNode> files = to.configure(
                    config,
                    new LayoutContents(
                            recipe,
                            options,
                            weights,
                            kept,
                            attention,
                            attention.queries() ? List.of("LlamaAttention") : List.of(),
                            Map.of()));
            return new Written(config, files);
        }

        JsonNode quantization() {
            return config.path("quantization_config");
        }
    }

    /** That {@code written} has no key that {@code golden} lacks, equal values, and leaves out only what is a default. */
    private static void assertSameMeaning(JsonNode golden, JsonNode written, String where) {
        if (!golden.isObject()) {
            assertEquals(golden, written, where);
            return;
        }
        Set<String> unknown = new TreeSet<>();
        written.fieldNames().forEachRemaining(unknown::add);
        for (Map.Entry<String, JsonNode> field : golden.properties()) {
            unknown.remove(field.getKey());
            JsonNode value = field.getValue();
            if (written.has(field.getKey())) {
                assertSameMeaning(value, written.path(field.getKey()), where + "." + field.getKey());
            } else {
                boolean isDefault = value.isNull()
                        || (value.isContainerNode() && value.isEmpty())
                        || INFORMATIONAL.contains(field.getKey());
                assertTrue(isDefault, where + " lacks " + field.getKey() + ": " + value);
            }
        }
        assertEquals(Set.of(), unknown, where);
    }

    @ParameterizedTest
    @MethodSource("compressedTensors")
    void compressed_tensors_reads_what_its_own_presets_say(String name) throws IOException {
        assertSameMeaning(
                golden("compressed-tensors").path(name),
                Written.of("compressed-tensors", name).quantization(),
                name);
    }

    @ParameterizedTest
    @MethodSource("fp8")
    void fp8_says_what_transformers_says(String name) throws IOException {
        ObjectNode golden = (ObjectNode) golden("fp8").path(name);
        ObjectNode written = (ObjectNode) Written.of("fp8", name).quantization().deepCopy();
        // Defaults that need not be written: of loading, and of scale_fmt.
        golden.remove(List.of("dequantize", "modules_to_convert"));
        if (golden.path("scale_fmt").asText().equals("float")) {
            golden.remove("scale_fmt");
        }
        // DeepSeek-V3 has it, transformers drops it.
        assertEquals("e4m3", requireNonNull(written.remove("fmt")).asText());

        assertEquals(golden, written);
    }

    @ParameterizedTest
    @MethodSource("modelopt")
    void modelopt_has_both_files_as_model_optimizer_writes_them(String name) throws IOException {
        Written written = Written.of("modelopt", name);

        assertEquals(golden("modelopt").path(name).path("quantization_config"), written.quantization());
        assertEquals(
                Map.of("hf_quant_config.json", golden("modelopt").path(name).path("hf_quant_config")), written.files());
    }

    @Test
    void every_scheme_of_every_layout_has_a_golden_configuration() throws IOException {
        List<String> missing = new ArrayList<>();
        for (Layout layout : Layouts.ALL) {
            for (Recipe recipe : Recipes.CHECKPOINT) {
                for (String choice : List.of("", "+static", "+ue8m0")) {
                    LayoutOptions options =
                            new LayoutOptions(DType.F32, choice.equals("+ue8m0"), choice.equals("+static"));
                    if (layout.scheme(recipe, options).isPresent()
                            && !golden(layout.name()).has(recipe.name() + choice)) {
                        missing.add(layout.name() + " " + recipe.name() + choice);
                    }
                }
            }
        }
        assertEquals(List.of(), missing);
    }

    @ParameterizedTest
    @ValueSource(strings = {"compressed-tensors", "fp8", "modelopt"})
    void the_rest_of_the_configuration_stays_as_it_is(String layout) {
        ObjectNode config = Written.of(layout, "fp8-block").config();

        assertEquals(
                List.of("architectures", "rope_theta", "nested", "quantization_config"),
                config.properties().stream().map(Map.Entry::getKey).toList());
        assertEquals(10000.0, config.path("rope_theta").asDouble());
    }

    @ParameterizedTest
    @ValueSource(strings = {"compressed-tensors", "fp8", "modelopt"})
    void an_earlier_quantization_is_replaced(String layout) {
        Layout to = Layouts.named(layout).orElseThrow();
        ObjectNode config =
                Specs.json("{'quantization_config': {'quant_method': 'gptq', 'bits': 4}, 'compression_config': {}}");
        to.configure(
                config,
                new LayoutContents(
                        Recipes.FP8_BLOCK, LayoutOptions.defaults(), List.of(), List.of(), AttentionScheme.NONE));

        assertEquals(
                Written.of(layout, "fp8-block", List.of(), List.of()).quantization(),
                config.path("quantization_config"));
        assertEquals(1, config.size());
    }

    @Test
    void transformers_would_skip_a_longer_name_so_that_the_shorter_gets_an_end() {
        JsonNode written = Written.of(
                        "fp8",
                        "fp8-block",
                        List.of("m.mlp.gate_proj", "m.fc1"),
                        List.of("m.mlp.gate", "fc1", "lm_head"))
                .quantization();

        assertEquals(
                "[\"m.mlp.gate$\",\"fc1$\",\"lm_head\"]",
                written.path("modules_to_not_convert").toString());
        // vLLM asks for this first, and compares names.
        assertEquals(
                "[\"m.mlp.gate\",\"fc1\",\"lm_head\"]",
                written.path("ignored_layers").toString());
    }

    @Test
    void vllm_would_skip_every_name_with_an_excluded_one_in_it_so_that_it_becomes_a_pattern() {
        Written written =
                Written.of("modelopt", "fp8-block", List.of("m.mlp.gate_proj"), List.of("m.mlp.gate", "lm_head"));

        assertEquals(
                "[\"m.mlp.gat[e]\",\"lm_head\"]",
                written.quantization().path("ignore").toString());
        assertEquals(
                written.quantization().path("ignore"),
                requireNonNull(written.files().get("hf_quant_config.json"))
                        .path("quantization")
                        .path("exclude_modules"));
    }

    @Test
    void fused_experts_that_are_kept_go_by_the_module_that_holds_them() {
        List<String> kept =
                List.of("m.0.experts.gate_up_proj", "m.0.experts.down_proj", "m.1.experts.7.up_proj", "experts.x");

        assertEquals(
                "[\"m.0.experts\",\"m.1.experts.7.up_proj\",\"experts\"]",
                Written.of("fp8", "fp8-block", List.of(), kept)
                        .quantization()
                        .path("modules_to_not_convert")
                        .toString());
        assertEquals(
                "[\"m.0.experts\",\"m.1.experts.7.up_proj\",\"experts\"]",
                Written.of("modelopt", "fp8-block", List.of(), kept)
                        .quantization()
                        .path("ignore")
                        .toString());
        // vLLM asks compressed-tensors for experts.0.gate_proj.
        assertEquals(
                "[\"m.0.experts\",\"re:m\\\\.0\\\\.experts\\\\..*\",\"m.1.experts.7.up_proj\",\"experts\",\"re:experts\\\\..*\"]",
                Written.of("compressed-tensors", "fp8-block", List.of(), kept)
                        .quantization()
                        .path("ignore")
                        .toString());
    }
}
