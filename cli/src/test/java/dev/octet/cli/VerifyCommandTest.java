package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.converter.verify.Consumer;
import dev.octet.converter.verify.Rule;
import dev.octet.converter.verify.Verifier;
import dev.octet.formats.ModelFile;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class VerifyCommandTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path CHECKPOINTS = TESTDATA.resolve("checkpoints");
    private static final String BERT =
            TESTDATA.resolve("models/tiny-hf/bert/model.safetensors").toString();

    @TempDir
    Path folder;

    /** A file with an FP8 weight that nothing speaks of. */
    private String faulty() throws IOException {
        Path file = folder.resolve("faulty.safetensors");
        try (Arena arena = Arena.ofConfined()) {
            Tensor weight = Tensor.allocate(
                    arena, new TensorSpec("layers.0.up_proj.weight", DType.F8_E4M3FN, Shape.of(16, 16)));
            Tensor scale = Tensor.ofFloats(arena, "layers.0.up_proj.weight_scale", Shape.of(1), 1);
            ModelFile.save(Model.of(Map.of(weight.name(), weight, scale.name(), scale), Map.of("format", "pt")), file);
        }
        return file.toString();
    }

    @Test
    void a_model_without_a_fault_exits_0() {
        CommandLine run = CommandLine.run("verify", BERT);
        assertEquals(ExitCode.OK, run.code(), run.err() + run.out());
        assertTrue(run.out().contains("0 errors"), run.out());
    }

    static Stream<Arguments> recipesAndLayouts() {
        return Recipes.CHECKPOINT.stream()
                .flatMap(r -> Layouts.ALL.stream()
                        .filter(l -> l.scheme(r, LayoutOptions.defaults()).isPresent())
                        .map(l -> Arguments.of(r.name(), l.name())));
    }

    @ParameterizedTest
    @MethodSource("recipesAndLayouts")
    void what_octet_writes_is_checked_for_those_who_read_the_layout(String recipe, String layout) {
        String model = CHECKPOINTS.resolve("llama-128").toString();
        String output = folder.resolve("quantised").toString();
        CommandLine made =
                CommandLine.run("quantize", model, "--recipe", recipe, "--target", layout, "-o", output, "--quiet");
        assertEquals(ExitCode.OK, made.code(), made.err());
        CommandLine run = CommandLine.run("verify", output);
        assertEquals(ExitCode.OK, run.code(), run.out());
        if (layout.equals("modelopt")) {
            assertTrue(run.out().contains("not checked for transformers, which does not load this layout"), run.out());
            assertEquals(
                    ExitCode.CHECK_FAILED,
                    CommandLine.run("verify", output, "--for", "transformers").code());
        }
    }

    @Test
    void a_fault_exits_1_and_says_where_it_is_and_what_mends_it() throws IOException {
        CommandLine run = CommandLine.run("verify", faulty());
        assertEquals(ExitCode.CHECK_FAILED, run.code(), run.err() + run.out());
        assertTrue(run.out().contains("error  config-missing"), run.out());
        assertTrue(run.out().lines().anyMatch(l -> l.startsWith("  fix ")), run.out());
        assertEquals("", run.err());
    }

    @Test
    void the_json_says_what_the_table_says() throws IOException {
        CommandLine run = CommandLine.run("verify", faulty(), "--json", "--for", "vllm");
        assertEquals(ExitCode.CHECK_FAILED, run.code());
        JsonNode answer = new ObjectMapper().readTree(run.out());
        assertFalse(answer.get("passed").asBoolean());
        assertEquals("vllm", answer.get("consumers").get(0).asText());
        JsonNode finding = answer.get("findings").get(0);
        assertEquals("config-missing", finding.get("rule").asText());
        assertEquals("error", finding.get("severity").asText());
        assertEquals(1, finding.get("count").asInt());
        assertFalse(finding.get("places").get(0).get("name").asText().isEmpty());
        assertEquals(
                Verifier.RULES.size(),
                answer.get("rules_run").size() + answer.get("rules_skipped").size() + rulesOfOthers());
    }

    /** Rules of graphs and adapters are neither run nor skipped for a checkpoint. */
    private static long rulesOfOthers() {
        return Verifier.RULES.stream()
                .filter(r -> Consumer.OF_GRAPHS.containsAll(r.consumers()) || r.id().startsWith("adapter-"))
                .count();
    }

    @ParameterizedTest
    @CsvSource({
        "--for, vlm, vllm",
        "--for, 'vllm,tensorrt-lm', tensorrt-llm",
        "--for, ',', vllm",
        "--for, onnxruntime, transformers",
        "--tp, 0, from 1",
        "--tp, '1,two', from 1",
        "--tp, -1, from 1",
        "--threads, 0, range"
    })
    void a_wrong_value_exits_2_and_says_what_would_be_right(String option, String value, String told) {
        CommandLine run = CommandLine.run("verify", BERT, option, value);
        assertEquals(ExitCode.USAGE, run.code(), run.err() + run.out());
        OctetTest.assertThreeLines(run);
        assertTrue(run.err().contains(told), run.err());
    }

    @Test
    void a_model_must_be_named() {
        assertEquals(ExitCode.USAGE, CommandLine.run("verify").code());
    }

    @Test
    void what_is_no_model_exits_3_and_what_is_not_there_4() throws IOException {
        Path text = Files.writeString(folder.resolve("notes.txt"), "just some words, and a few more of them");
        assertEquals(ExitCode.INPUT, CommandLine.run("verify", text.toString()).code());
        assertEquals(
                ExitCode.INPUT, CommandLine.run("verify", folder.toString()).code());
        assertEquals(
                ExitCode.IO,
                CommandLine.run("verify", folder.resolve("none").toString()).code());
        assertEquals(
                ExitCode.IO,
                CommandLine.run(
                                "verify",
                                BERT,
                                "--against",
                                folder.resolve("none").toString())
                        .code());
    }

    @ParameterizedTest
    @MethodSource("dev.octet.cli.InspectCommandTest#malformedFiles")
    void a_malformed_file_exits_3_with_three_lines(Path file) {
        CommandLine run = CommandLine.run("verify", file.toString());
        assertEquals(ExitCode.INPUT, run.code(), run.err());
        OctetTest.assertThreeLines(run);
    }

    @Test
    void the_list_of_rules_names_each_with_its_source() {
        CommandLine run = CommandLine.run("verify", "--rules");
        assertEquals(ExitCode.OK, run.code(), run.err());
        for (Rule rule : Verifier.RULES) {
            assertTrue(
                    run.out().lines().anyMatch(l -> l.startsWith(rule.id() + " ") && l.contains(rule.source())),
                    rule.id());
        }
    }

    @Test
    void the_page_on_verify_lists_exactly_the_rules() throws IOException {
        String page = Files.readString(TESTDATA.resolveSibling("docs/verify.md"));
        String expected = Verifier.RULES.stream().map(VerifyCommandTest::line).collect(Collectors.joining("\n"));
        String listed =
                page.lines().filter(l -> l.matches("\\| `[a-z0-9-]+` \\| .*")).collect(Collectors.joining("\n"));
        assertEquals(expected, listed);
    }

    private static String line(Rule rule) {
        return "| `" + rule.id() + "` | " + rule.severity().text() + " | "
                + rule.consumers().stream().map(Consumer::text).collect(Collectors.joining(", ")) + " | "
                + rule.demand() + (rule.deep() ? " `--deep`" : "") + (rule.needsOriginal() ? " `--against`" : "")
                + " | "
                + rule.source() + " |";
    }
}
