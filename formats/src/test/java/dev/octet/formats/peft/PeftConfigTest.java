package dev.octet.formats.peft;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.TestData;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The configuration of an adapter; the files of {@code testdata/adapters} are PEFT's own. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PeftConfigTest {
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    Path folder;

    static List<String> adapters() throws IOException {
        try (Stream<Path> all = Files.list(TestData.path("adapters"))) {
            return all.filter(path -> Files.exists(path.resolve("adapter_config.json")))
                    .map(path -> path.getFileName().toString())
                    .sorted()
                    .toList();
        }
    }

    private static Path file(String adapter) {
        return TestData.path("adapters/" + adapter + "/adapter_config.json");
    }

    private static PeftConfig config(String keys) throws IOException {
        return PeftConfig.of((ObjectNode) JSON.readTree(keys.replace('\'', '"')));
    }

    private static PeftConfig lora(String keys) throws IOException {
        return config("{'peft_type': 'LORA'" + (keys.isEmpty() ? "" : ", ") + keys + "}");
    }

    @ParameterizedTest
    @MethodSource("adapters")
    void a_file_of_PEFT_is_written_back_byte_for_byte(String adapter) throws IOException {
        assertEquals(
                Files.readString(file(adapter)), PeftConfig.read(file(adapter)).toText());
    }

    @ParameterizedTest
    @MethodSource("adapters")
    void the_defaults_are_the_keys_and_values_that_PEFT_writes(String adapter) throws IOException {
        ObjectNode written = PeftConfig.read(file(adapter)).json();
        ObjectNode defaults = JSON.createObjectNode().set("peft_type", written.get("peft_type"));
        defaults = PeftConfig.of(defaults).withDefaults().json();
        written.remove("peft_version"); // PEFT's own
        assertEquals(new TreeSet<>(names(written)), new TreeSet<>(names(defaults)));
    }

    private static List<String> names(ObjectNode json) {
        return json.properties().stream().map(Map.Entry::getKey).toList();
    }

    @Test
    void defaults_of_LoRA_have_the_values_of_a_plain_adapter_of_PEFT() throws IOException {
        ObjectNode written = PeftConfig.read(file("llama-lora")).json();
        ObjectNode completed = lora("").withDefaults().json();
        written.remove(List.of("peft_version", "r", "lora_alpha", "target_modules"));
        completed.remove(List.of("r", "lora_alpha", "target_modules"));
        completed.set("base_model_name_or_path", written.get("base_model_name_or_path"));
        completed.set("task_type", written.get("task_type"));
        assertEquals(
                JSON.readTree(PeftConfig.of(written).toText()),
                JSON.readTree(PeftConfig.of(completed).toText()));
    }

    @Test
    void only_the_method_must_be_there_and_alpha_is_8_like_the_rank() throws IOException {
        LoraConfig lora = lora("").lora();
        assertEquals(8, lora.r());
        assertEquals(8, lora.loraAlpha());
        assertEquals(1, lora.scaling("model.layers.0.self_attn.q_proj"));
        assertTrue(lora.targetModules().entries().isEmpty());
    }

    @Test
    void unknown_keys_are_kept() throws IOException {
        PeftConfig config = lora("'r': 4, 'of_tomorrow': {'b': [1, 2.50], 'a': 'ü'}");
        assertEquals("""
            {
              "of_tomorrow": {
                "a": "\\u00fc",
                "b": [
                  1,
                  2.5
                ]
              },
              "peft_type": "LORA",
              "r": 4
            }\
            """, config.toText());
        assertTrue(config.withDefaults().has("of_tomorrow"));
    }

    @Test
    void ranks_and_alphas_of_patterns_count_for_the_ends_of_paths_in_the_order_of_the_file() throws IOException {
        LoraConfig lora = PeftConfig.read(file("llama-patterns")).lora();
        assertEquals(3, lora.rank("model.layers.0.self_attn.q_proj"));
        assertEquals(5, lora.rank("model.layers.1.self_attn.q_proj"));
        assertEquals(1, lora.rank("model.layers.1.mlp.down_proj"));
        assertEquals(3, lora.rank("model.layers.1.mlp.xdown_proj"));
        assertEquals(4.0, lora.scaling("model.layers.1.mlp.down_proj"));
        assertEquals(7.0 / 3, lora.scaling("model.layers.1.mlp.gate_proj"));
        assertEquals(
                List.of("down_proj", "gate_proj"), lora.unmatchedPatterns(List.of("model.layers.1.self_attn.q_proj")));
        assertEquals(
                2, lora("'rank_pattern': {'.*_proj': 2, 'q_proj': 5}").lora().rank("a.q_proj"));
    }

    @Test
    void the_scaling_of_rsLoRA_divides_by_the_root_of_the_rank() throws IOException {
        LoraConfig lora = lora("'use_rslora': true, 'lora_alpha': 6, 'rank_pattern': {'v': 9}")
                .lora();
        assertEquals(6 / Math.sqrt(8), lora.scaling("q"));
        assertEquals(2, lora.scaling("v"));
    }

    @Test
    void a_feedforward_module_is_found_by_the_end_of_its_path_as_PEFT_finds_it() throws IOException {
        Ia3Config ia3 = PeftConfig.read(file("llama-ia3")).ia3();
        assertTrue(ia3.isFeedforward("model.layers.0.mlp.down_proj"));
        assertFalse(ia3.isFeedforward("model.layers.0.self_attn.v_proj"));
        Ia3Config regex = config("{'peft_type': 'IA3', 'feedforward_modules': '.*\\\\.(wo|wi)'}")
                .ia3();
        assertTrue(regex.isFeedforward("a.wi"));
        assertFalse(regex.isFeedforward("a.wix"));
    }

    @Test
    void the_shape_of_virtual_tokens_follows_from_the_configuration() throws IOException {
        PromptConfig prefix = PeftConfig.read(file("llama-prefix")).prompt();
        assertEquals(3, prefix.rows());
        assertEquals(2L * 2 * 16, prefix.columns().orElseThrow());
        PromptConfig prompt = PeftConfig.read(file("gpt2-prompt")).prompt();
        assertEquals(32, prompt.columns().orElseThrow());
        PromptConfig none = config("{'peft_type': 'PROMPT_TUNING'}").prompt();
        MalformedModelException e = assertThrows(MalformedModelException.class, none::virtualTokens);
        assertTrue(e.what().contains("num_virtual_tokens is missing"), e.what());
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
        'r': 0                                  | r
        'r': 2.5                                | r
        'r': '8'                                | r
        'r': 99999999999                        | r
        'lora_alpha': '16'                      | lora_alpha
        'lora_alpha': 1e999                     | lora_alpha
        'lora_dropout': 1.0                     | lora_dropout
        'lora_dropout': -0.1                    | lora_dropout
        'use_dora': 'false'                     | use_dora
        'bias': 'some'                          | bias
        'target_modules': 3                     | target_modules
        'target_modules': [3]                   | target_modules
        'rank_pattern': {'q': -1}               | rank_pattern
        'rank_pattern': [1]                     | rank_pattern
        'rank_pattern': {'(': 1}                | rank_pattern
        'alpha_pattern': {'q': true}            | alpha_pattern
        'layers_to_transform': 'all'            | layers_to_transform
        'modules_to_save': {}                   | modules_to_save
        'target_parameters': 'experts.w'        | target_parameters
        'init_lora_weights': 3                  | init_lora_weights
        'base_model_name_or_path': 3            | base_model_name_or_path
        'lora_bias': true, 'use_dora': true     | lora_bias
        """)
    void a_value_of_a_wrong_type_is_refused_with_its_key(String keys, String key) {
        // 1e999 is infinite as a double
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> lora(keys));
        assertTrue(e.where().endsWith("key " + key), e.getMessage());
        assertFalse(e.fix().isEmpty(), e.getMessage());
    }

    @Test
    void an_unknown_method_is_refused_with_those_that_there_are() {
        UnsupportedModelException e =
                assertThrows(UnsupportedModelException.class, () -> config("{'peft_type': 'PROMT_TUNING'}"));
        assertTrue(e.what().contains("'PROMT_TUNING'"), e.what());
        assertEquals("did you mean PROMPT_TUNING, PREFIX_TUNING?", e.fix());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"", "[]", "{", "{\"peft_type\": \"LORA\"} x", "\u0000\u0001", "null", "{\"peft_type\": null}"})
    void a_broken_file_is_refused_with_its_name(String text) throws IOException {
        Path file = Files.writeString(folder.resolve("adapter_config.json"), text);
        OctetException e = assertThrows(MalformedModelException.class, () -> PeftConfig.read(file));
        assertTrue(e.where().contains("adapter_config.json"), e.getMessage());
    }

    @Test
    void a_file_that_is_too_deep_or_missing_is_refused() throws IOException {
        Path file = folder.resolve("adapter_config.json");
        assertThrows(NoSuchFileException.class, () -> PeftConfig.read(file));
        Files.writeString(file, "{\"peft_type\":\"LORA\",\"x\":" + "[".repeat(5000) + "]".repeat(5000) + "}");
        assertThrows(MalformedModelException.class, () -> PeftConfig.read(file));
    }

    @Test
    void a_file_of_AdapterHub_is_recognised() {
        MalformedModelException e = assertThrows(
                MalformedModelException.class, () -> config("{'config': {'mh_adapter': true}, 'model_type': 'bert'}"));
        assertTrue(e.what().contains("AdapterHub"), e.what());
    }

    @Test
    void keys_whose_maths_Octet_does_not_know_are_listed() throws IOException {
        assertEquals(List.of(), PeftConfig.read(file("llama-dora")).lora().foreignKeys());
        assertEquals(
                List.of("layer_replication", "use_qalora"),
                lora("'use_qalora': true, 'layer_replication': [[0, 2]]").lora().foreignKeys());
    }
}
