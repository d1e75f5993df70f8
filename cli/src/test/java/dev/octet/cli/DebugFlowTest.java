package dev.octet.cli;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** How a user debugs a run with a file that was written for Transformer Engine. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class DebugFlowTest {
    private static final Path TESTDATA =
            Path.of(System.getProperty("octet.testdata")).toAbsolutePath().normalize();
    private static final Path GOLDEN = TESTDATA.resolve("golden/debug");

    /** As Transformer Engine's documentation has it; the file counts iterations from 0. */
    private static final String TE_YAML = """
        log_all:
          enabled: True
          layers:
            layer_name_regex_pattern: (h|layers)\\.\\d
          transformer_engine:
            LogTensorStats:
              enabled: True
              tensors: [activation, gradient, weight, output, wgrad, dgrad]
              stats: [min, max, std, l1_norm, l2_norm, cur_amax]
              freq: 1
              start_step: 0
              end_step: 0
        """;

    @TempDir
    Path folder;

    private CommandLine train(String model, String run, String... lines) throws IOException {
        Path config = folder.resolve(run + ".yaml");
        Files.writeString(
                config,
                "data: {train: " + GOLDEN.resolve("tokens.bin") + ", sequence: 16, shuffle: false}\n"
                        + "loss: {type: causal-lm}\nbatch_size: 2\ngradient_accumulation: 2\noptimizer: {lr: 1.0e-3}\n"
                        + String.join("\n", lines) + "\n");
        return CommandLine.run(
                "train",
                TESTDATA.resolve("models/tiny-lm").resolve(model).toString(),
                "--config",
                config.toString(),
                "-o",
                folder.resolve(run).toString(),
                "--threads",
                "2",
                "--quiet");
    }

    private Map<String, Double> expected(String model) throws IOException {
        Map<String, Double> values = new HashMap<>();
        for (String line : Files.readAllLines(GOLDEN.resolve("lines.csv"))) {
            String[] cells = line.split(",", -1);
            if (cells[0].equals(model)) {
                values.put(cells[1], Double.parseDouble(cells[2]));
            }
        }
        return values;
    }

    @ParameterizedTest
    @ValueSource(strings = {"gpt2", "llama"})
    void a_run_logs_of_every_linear_what_hooks_of_torch_see(String model) throws IOException {
        Files.writeString(folder.resolve("te.yaml"), TE_YAML);
        CommandLine run =
                train(model, "run", "steps: 2", "debug: {file: te.yaml, te_log: true, init_training_step: 0}");
        assertEquals(ExitCode.OK, run.code(), run.err());
        Map<String, Double> expected = expected(model);
        Pattern line = Pattern.compile(
                "[-\\d]{10} [:\\d]{8},\\d{3} - INFO - (\\S+) \t\t\t\t iteration=000000 \t\t\t\t value=(\\S+)");
        List<String> lines = Files.readAllLines(
                folder.resolve("run/nvdlfw_inspect_statistics_logs/nvdlfw_inspect_globalrank-0.log"));
        assertEquals(expected.size(), lines.size());
        for (String text : lines) {
            Matcher m = line.matcher(text);
            assertTrue(m.matches(), text);
            double value = requireNonNull(expected.remove(m.group(1)), m.group(1));
            // six digits, after sums of two libraries in F32
            assertEquals(value, Double.parseDouble(m.group(2)), 2e-4 * Math.abs(value), m.group(1));
        }
        assertEquals(Map.of(), expected);
    }

    @Test
    void products_of_a_file_are_taken_out_of_fp8_and_the_run_says_what_it_looks_at() throws IOException {
        String yaml = TE_YAML.replace("LogTensorStats:", "DisableFP8GEMM:")
                .replaceAll("(?m)^ +(tensors|freq|start_step|end_step):.*\n", "")
                .replaceAll("stats: \\[.*]", "gemms: [fprop, dgrad, wgrad]");
        Files.writeString(folder.resolve("te.yaml"), yaml);
        Path config = folder.resolve("c.yaml");
        Files.writeString(
                config,
                "data: {train: " + GOLDEN.resolve("tokens.bin")
                        + ", sequence: 16}\nloss: {type: causal-lm}\nbatch_size: 2\n"
                        + "steps: 1\noptimizer: {lr: 1.0e-3}\nprecision: {mode: fp8}\ndebug: te.yaml\n");
        CommandLine plan = CommandLine.run(
                "train",
                TESTDATA.resolve("models/tiny-lm/gpt2").toString(),
                "--config",
                config.toString(),
                "-o",
                folder.resolve("run").toString(),
                "--dry-run");
        assertEquals(ExitCode.OK, plan.code(), plan.err());
        String said = plan.out() + plan.err();
        assertTrue(said.contains("1 of 9 matrix products"), said);
        assertTrue(said.contains("DisableFP8GEMM is DisableQuantizationGEMM by its earlier name"), said);
    }

    @Test
    void a_run_is_exported_after_its_debug_file_is_gone() throws IOException {
        Files.writeString(folder.resolve("te.yaml"), """
            last_layer:
              enabled: True
              layers: {layer_numbers: [1]}
              transformer_engine:
                DisableQuantizationLayer: {enabled: True}
            """);
        CommandLine run = train("llama", "run", "steps: 1", "precision: {mode: fp8}", "debug: te.yaml");
        assertEquals(ExitCode.OK, run.code(), run.err());
        Files.delete(folder.resolve("te.yaml"));
        CommandLine export = CommandLine.run(
                "export",
                folder.resolve("run").toString(),
                "-o",
                folder.resolve("out").toString(),
                "--target",
                "compressed-tensors",
                "--quiet");
        assertEquals(ExitCode.OK, export.code(), export.err());
        assertTrue(export.out().contains("the run computed it in high precision"), export.out());
    }

    @Test
    void an_unknown_feature_is_refused_before_anything_is_read() throws IOException {
        Files.writeString(folder.resolve("te.yaml"), TE_YAML.replace("LogTensorStats", "LogTensorStat"));
        CommandLine run = train("gpt2", "run", "steps: 2", "debug: {file: te.yaml}");
        assertEquals(ExitCode.USAGE, run.code());
        assertTrue(run.err().contains("unknown feature 'LogTensorStat'"), run.err());
        assertTrue(run.err().contains("te.yaml, line 6"), run.err());
        assertTrue(run.err().contains("did you mean LogTensorStats"), run.err());
        assertTrue(Files.notExists(folder.resolve("run")));
    }

    @Test
    void a_section_without_a_layer_is_refused_before_the_run_begins() throws IOException {
        Files.writeString(folder.resolve("te.yaml"), TE_YAML.replace("(h|layers)", "decoder"));
        CommandLine run = train("gpt2", "run", "steps: 2", "debug: {file: te.yaml}");
        assertEquals(ExitCode.USAGE, run.code());
        assertTrue(run.err().contains("the section selects none of the 9 layers"), run.err());
        assertTrue(Files.notExists(folder.resolve("run/metrics.jsonl")));
    }
}
