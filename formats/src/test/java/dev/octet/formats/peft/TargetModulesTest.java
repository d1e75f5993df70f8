package dev.octet.formats.peft;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.TestData;
import dev.octet.formats.error.MalformedModelException;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Which modules an adapter changes, against the choices of PEFT 0.21 ({@code testdata/make/peft_adapters.py}). */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TargetModulesTest {
    private static final ObjectMapper JSON = new ObjectMapper();

    @TestFactory
    List<DynamicTest> every_choice_is_PEFTs() throws IOException {
        JsonNode golden = JSON.readTree(TestData.path("adapters/targets.json").toFile());
        List<DynamicTest> tests = new ArrayList<>();
        for (JsonNode row : golden.get("rows")) {
            String base = row.get("base").textValue();
            Map<String, ModuleKind> modules = kinds(golden.get("kinds").get(base));
            golden.get("others").forEach(path -> modules.put(path.textValue(), ModuleKind.OTHER));
            ObjectNode keys = row.get("config").deepCopy();
            tests.add(DynamicTest.dynamicTest(base + " " + keys, () -> {
                List<String> expected = new ArrayList<>();
                row.get("chosen").forEach(path -> expected.add(path.textValue()));
                assertEquals(expected, targets(keys).select(modules));
            }));
        }
        assertEquals(44, tests.size());
        return tests;
    }

    /** The kind of each module from the name of its class in torch. */
    private static Map<String, ModuleKind> kinds(JsonNode classes) {
        Map<String, ModuleKind> kinds = new LinkedHashMap<>();
        classes.properties()
                .forEach(e -> kinds.put(
                        e.getKey(),
                        switch (e.getValue().textValue()) {
                            case "Linear", "Conv1D" ->
                                e.getKey().equals("lm_head") ? ModuleKind.OUTPUT_HEAD : ModuleKind.LINEAR;
                            case "Embedding" -> ModuleKind.EMBEDDING;
                            case "LayerNorm", "LlamaRMSNorm" -> ModuleKind.NORM;
                            default -> ModuleKind.OTHER;
                        }));
        return kinds;
    }

    private static TargetModules targets(ObjectNode keys) {
        keys.put("peft_type", "LORA");
        return PeftConfig.of(keys).lora().targetModules();
    }

    private static TargetModules targets(String keys) throws IOException {
        return targets((ObjectNode) JSON.readTree(keys.replace('\'', '"')));
    }

    @Test
    void entries_that_match_nothing_are_counted_as_zero() throws IOException {
        TargetModules targets = targets("{'target_modules': ['q_proj', 'query'], 'exclude_modules': ['a.q_proj']}");
        Map<String, ModuleKind> modules = Map.of("a.q_proj", ModuleKind.LINEAR, "b.q_proj", ModuleKind.LINEAR);
        assertEquals(Map.of("q_proj", 2, "query", 0), targets.counts(modules));
        assertEquals(List.of("b.q_proj"), targets.select(modules));
    }

    @Test
    void layers_with_a_text_of_targets_are_refused_as_by_PEFT() {
        for (String keys : List.of(
                "{'target_modules': '.*q_proj', 'layers_to_transform': [1]}",
                "{'target_modules': 'all-linear', 'layers_to_transform': 1}",
                "{'target_modules': ['q_proj'], 'layers_pattern': 'layers'}")) {
            MalformedModelException e = assertThrows(MalformedModelException.class, () -> targets(keys));
            assertTrue(e.where().contains("key layers_"), e.getMessage());
        }
    }

    @Test
    void a_bracket_and_ampersands_in_a_class_mean_what_they_mean_in_Python() throws IOException {
        TargetModules targets = targets("{'target_modules': '[[x&&y]+\\\\.q[]]?\\\\Z'}");
        assertTrue(targets.matches("[x&y.q]", ModuleKind.LINEAR));
        assertTrue(targets.matches("x.q", ModuleKind.LINEAR));
        assertFalse(targets.matches("z.q", ModuleKind.LINEAR));
    }

    @Test
    void an_expression_that_is_none_is_named_with_its_key() {
        MalformedModelException e =
                assertThrows(MalformedModelException.class, () -> targets("{'target_modules': '(q_proj'}"));
        assertTrue(e.what().contains("'(q_proj' is not a regular expression"), e.what());
        assertTrue(e.where().endsWith("key target_modules"), e.where());
    }

    @Test
    void an_expression_that_would_take_forever_is_stopped() throws IOException {
        TargetModules targets = targets("{'target_modules': '(.*)(.*)(.*)(.*)(.*)(.*)b'}");
        String path = "a".repeat(200);
        MalformedModelException e = assertTimeoutPreemptively(
                Duration.ofSeconds(20),
                () -> assertThrows(MalformedModelException.class, () -> targets.matches(path, ModuleKind.LINEAR)));
        assertTrue(e.what().contains("steps"), e.what());
    }

    @Test
    void nesting_that_would_exhaust_the_stack_is_refused() {
        String deep = "(".repeat(PythonRegex.MAX_NESTING + 1) + ")".repeat(PythonRegex.MAX_NESTING + 1);
        assertThrows(MalformedModelException.class, () -> new PythonRegex(deep, "here"));
        String allowed = deep.substring(1, deep.length() - 1);
        assertTrue(new PythonRegex(allowed, "here").matches(""));
        String longest = "a".repeat(PythonRegex.MAX_CHARS);
        assertFalse(new PythonRegex(longest, "here").matches("b"));
        assertThrows(MalformedModelException.class, () -> new PythonRegex(longest + "a", "here"));
    }
}
