package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What every verb prints on a terminal of 80 columns, through the real command line. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TerminalTest {
    private static final TextStyle TERMINAL = TextStyle.terminal(80);
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final String BERT = TinyBert.MODEL.toString();
    private static final Path TINY = Path.of(System.getProperty("octet.testdata"), "models/tiny-hf/llama");
    private static final Path ADAPTER = Path.of(System.getProperty("octet.testdata"), "golden/merge/lora");
    private static final String LLAMA =
            TESTDATA.resolve("checkpoints/llama-128-small").toString();

    @TempDir
    Path folder;

    static Stream<String> verbs() {
        return Octet.COMMANDS.stream().map(Command::name);
    }

    private String at(String name) {
        return folder.resolve("a-folder-whose-name-alone-takes-half-of-the-line")
                .resolve(name)
                .toString();
    }

    private CommandLine shown(ExitCode code, String... words) {
        CommandLine run = CommandLine.run(TERMINAL, words);
        assertEquals(code, run.code(), run.err() + run.out());
        assertFits(run);
        return run;
    }

    /** A command is copied as it stands: of its lines, one may be a word that is longer than the terminal is wide. */
    private static void assertFits(CommandLine run) {
        boolean command = false;
        for (String line : (run.out() + run.err()).split("[\r\n]", -1)) {
            boolean goesOn = line.endsWith(" \\");
            String words = goesOn ? line.substring(0, line.length() - 2) : line;
            boolean longWord = (command || goesOn) && !words.strip().contains(" ");
            assertTrue(TextStyle.width(line) <= TERMINAL.columns() || longWord, line);
            command = goesOn;
        }
    }

    @ParameterizedTest
    @MethodSource("verbs")
    void help_fits_and_breaks_no_word(String verb) {
        CommandLine run = shown(ExitCode.OK, verb, "--help");
        String wide = CommandLine.run(verb, "--help").out();
        assertEquals(
                wide.replace(" \\\n", " ").replaceAll("\\s+", " "),
                run.out().replace(" \\\n", " ").replaceAll("\\s+", " "));
    }

    @Test
    void the_list_of_verbs_and_of_rules_fit() {
        shown(ExitCode.OK, "--help");
        shown(ExitCode.OK, "verify", "--rules");
        shown(ExitCode.OK, "inspect", "--device");
    }

    @Test
    void errors_fit() {
        shown(ExitCode.USAGE, "quantize", BERT, "-o", at("x.onnx"), "--rounding", "stochastic-and-something-more");
        shown(ExitCode.IO, "inspect", at("no-such-model-" + "x".repeat(100) + ".onnx"));
    }

    @Test
    void the_pages_of_models_with_a_graph_fit() throws IOException {
        Files.createDirectories(Path.of(at("")));
        String samples = TinyBert.samples(Path.of(at("samples.npz")), 8, 1).toString();
        shown(ExitCode.OK, "inspect", BERT);
        shown(ExitCode.OK, "inspect", "--parameters", BERT);
        shown(ExitCode.OK, "calibrate", BERT, "-o", at("s"), "--calibration", samples);
        shown(ExitCode.OK, "quantize", BERT, "-o", at("dry.onnx"), "--statistics", at("s"), "--dry-run");
        shown(ExitCode.OK, "quantize", BERT, "-o", at("fp8.onnx"), "--calibration", samples, "--keep", "query");
        shown(ExitCode.OK, "evaluate", BERT, at("fp8.onnx"), "--data", samples);
        shown(
                ExitCode.CHECK_FAILED,
                "evaluate",
                BERT,
                at("fp8.onnx"),
                "--data",
                samples,
                "--gate",
                "cosine=1.5",
                "--no-layers");
        shown(ExitCode.OK, "sensitivity", BERT, "--data", samples, "--formats", "fp8-per-channel");
        shown(ExitCode.OK, "quantize", BERT, "-o", at("mix.onnx"), "--data", samples, "--mix", "auto", "--bits", "12");
        shown(ExitCode.OK, "diff", BERT, at("fp8.onnx"));
        shown(ExitCode.OK, "inspect", at("fp8.onnx"));
        shown(ExitCode.OK, "verify", at("fp8.onnx"));
        shown(ExitCode.OK, "convert", BERT, "-o", at("weights.safetensors"));
        shown(ExitCode.OK, "convert", BERT, "-o", at("bert"), "--target", "huggingface");
        shown(
                ExitCode.OK,
                "generate",
                TESTDATA.resolve("models/tiny-hf/llama").toString(),
                "--prompt-tokens",
                "5,6",
                "--max-tokens",
                "12");
        shown(
                ExitCode.OK,
                "gradient",
                TESTDATA.resolve("models/op-grad/add_both.onnx").toString(),
                "--golden",
                TESTDATA.resolve("models/op-grad/add_both.safetensors").toString());
    }

    @Test
    void the_page_of_a_configuration_of_another_library_fits() {
        String configs = TESTDATA.resolve("configs/deepspeed").toString();
        shown(ExitCode.OK, "config", configs + "/zero3-offload.json");
        shown(ExitCode.CHECK_FAILED, "config", configs + "/features.json");
        shown(ExitCode.CHECK_FAILED, "config", configs + "/mistakes.json");
    }

    @Test
    void the_pages_of_checkpoints_fit() throws IOException {
        Files.createDirectories(Path.of(at("")));
        shown(ExitCode.OK, "inspect", LLAMA);
        shown(ExitCode.OK, "quantize", LLAMA, "-o", at("dry"), "--dry-run");
        shown(ExitCode.OK, "quantize", LLAMA, "-o", at("fp8"));
        shown(ExitCode.OK, "inspect", at("fp8"));
        shown(ExitCode.OK, "verify", at("fp8"), "--for", "vllm", "--tp", "1,2");
        shown(ExitCode.OK, "diff", LLAMA, at("fp8"));
        shown(ExitCode.OK, "dequantize", at("fp8"), "-o", at("floats"));
        shown(ExitCode.OK, "convert", at("fp8"), "-o", at("modelopt"), "--target", "modelopt");
        shown(ExitCode.OK, "convert", LLAMA, "-o", at("llama.onnx"), "--target", "onnx");
        shown(ExitCode.OK, "merge", TINY.toString(), ADAPTER.toString(), "-o", at("merged"), "--recipe", "nvfp4");
    }

    @Test
    void the_pages_of_a_run_and_its_export_fit() throws IOException {
        Files.createDirectories(Path.of(at("")));
        TinyBert.samples(Path.of(at("samples.npz")), 8, 1);
        Path config = Files.write(
                Path.of(at("train.yaml")),
                List.of(
                        "data: {train: samples.npz}",
                        "loss: {type: mse, output: logits, distillation: {teacher: " + BERT + "}}",
                        "batch_size: 2",
                        "precision: {mode: fp8}",
                        "steps: 3"));
        List<String> train = List.of("train", BERT, "--config", config.toString(), "-o", at("run"));
        List<String> dry = new ArrayList<>(train);
        dry.add("--dry-run");
        shown(ExitCode.OK, dry.toArray(String[]::new));
        List<String> first = new ArrayList<>(train);
        first.addAll(List.of("--steps", "2"));
        assertTrue(shown(ExitCode.OK, first.toArray(String[]::new)).out().contains("at step 2 of 3, as --steps asked"));
        CommandLine run = shown(
                ExitCode.OK, "export", at("run"), "-o", at("out.onnx"), "--target", "onnxruntime", "--samples", "4");
        assertTrue(run.out().contains("passed"), run.out());
    }

    @Test
    void colours_carry_meaning_and_only_where_they_are_wanted() throws IOException {
        Files.createDirectories(Path.of(at("")));
        String samples = TinyBert.samples(Path.of(at("samples.npz")), 8, 1).toString();
        String[] gate = {"evaluate", BERT, BERT, "--data", samples, "--gate", "cosine=1.5", "--no-layers"};
        TextStyle coloured = TERMINAL.with(Color.ALWAYS);
        CommandLine run = CommandLine.run(coloured, gate);
        assertTrue(run.out().contains("\u001b[1;31mFAILED\u001b[0m"), run.out());
        assertFits(run);
        assertTrue(CommandLine.run(coloured, "inspect").err().startsWith("\u001b[1;31moctet:\u001b[0m missing MODEL"));
        assertTrue(CommandLine.run(coloured, "--help").out().startsWith("\u001b[1musage:\u001b[0m octet"));
        List<String> never = new ArrayList<>(List.of(gate));
        never.addAll(List.of("--color", "never"));
        assertFalse(
                CommandLine.run(coloured, never.toArray(String[]::new)).out().contains("\u001b"));
        assertFalse(CommandLine.run(coloured, "inspect", "--color=never").err().contains("\u001b"));
        assertTrue(CommandLine.run("inspect", "--color=always").err().contains("\u001b"));
        assertFalse(CommandLine.run("inspect", "--json", BERT, "--color=always")
                .out()
                .contains("\u001b"));
        assertFalse(CommandLine.run(gate).out().contains("\u001b"));
        assertEquals(
                ExitCode.USAGE,
                CommandLine.run("inspect", BERT, "--color", "red").code());
    }
}
