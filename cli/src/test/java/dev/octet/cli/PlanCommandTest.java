package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.pipeline.plan.Accelerator;
import dev.octet.trainer.device.cpu.HostMemory;
import java.io.IOException;
import java.nio.file.DirectoryStream;
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
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code octet plan}, and what {@code octet train} refuses. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PlanCommandTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path CONFIGS = TESTDATA.resolve("golden/plan/configs");
    private static final String GPT2 = TESTDATA.resolve("models/tiny-lm/gpt2").toString();

    @TempDir
    Path folder;

    private static CommandLine plan(String model, String... options) {
        List<String> words =
                new ArrayList<>(List.of("plan", CONFIGS.resolve(model + ".json").toString()));
        words.addAll(List.of(options));
        return CommandLine.run(TextStyle.terminal(80), words.toArray(String[]::new));
    }

    private Path yaml(String... more) throws IOException {
        // rows of 8 tokens; a million of them are 16 MB
        Path tokens = folder.resolve("tokens.bin");
        if (Files.notExists(tokens)) {
            Files.write(tokens, new byte[1 << 24]);
        }
        List<String> lines = new ArrayList<>(
                List.of("data: {train: tokens.bin, sequence: 8}", "loss: {type: causal-lm}", "steps: 2"));
        lines.addAll(List.of(more));
        return Files.write(folder.resolve("train.yaml"), lines);
    }

    @Test
    void the_page_names_every_accelerator() throws IOException {
        String page = Files.readString(TESTDATA.resolveSibling("docs/plan.md"));
        Accelerator.ALL.forEach(
                a -> assertTrue(page.contains(a.name() + ",") || page.contains(a.name() + " |"), a.name()));
    }

    @Test
    void llama_405b_is_planned_from_its_configuration_alone() {
        CommandLine run = plan(
                "llama3-405b", "--hardware", "8192xH100", "--batch", "2048", "--tokens", "15.6e12", "--price", "2");
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertTrue(run.out().contains("405,853,388,800"), run.out());
        assertTrue(run.out().contains("Schedule of the fastest"), run.out());
        assertTrue(run.out().matches("(?s).*training +\\d.* days.*"), run.out());
        assertTrue(run.out().contains(" in all for 8192xH100"), run.out());
    }

    @ParameterizedTest
    @CsvSource({
        "llama3-8b, 8xH100",
        "llama3-70b, 64xH100",
        "gpt3-175b, 64xA100",
        "mixtral-8x7b, 16xH200",
        "llama3-405b, 4xH100"
    })
    void a_terminal_of_80_columns_shows_every_line_whole(String model, String hardware) {
        CommandLine run = plan(model, "--hardware", hardware);
        run.out().lines().forEach(l -> assertTrue(TextStyle.width(l) <= 80, l));
        assertTrue(run.out().contains("data  tensor  pipeline"), "tables stay tables: " + run.out());
    }

    @Test
    void what_fits_nowhere_ends_with_1_and_says_how_many_devices_it_takes() {
        CommandLine run = plan("llama3-70b", "--hardware", "8xA100");
        assertEquals(ExitCode.CHECK_FAILED, run.code(), run.err());
        assertTrue(run.out().matches("(?s).*No way of training fits 8xA100\\. It takes \\d+ of them\\..*"), run.out());
    }

    @Test
    void whole_copies_that_do_not_fit_are_answered_with_the_smallest_change() {
        CommandLine run = plan("llama3-8b", "--hardware", "8xH100");
        assertTrue(run.out().replaceAll("\\s+", " ").contains("The smallest change that fits: --mesh "), run.out());
    }

    @Test
    void unknown_hardware_ends_with_2_and_the_names() {
        CommandLine run = plan("llama3-8b", "--hardware", "8xH1000");
        assertEquals(ExitCode.USAGE, run.code());
        Accelerator.ALL.forEach(a -> assertTrue(run.err().contains(a.name()), run.err()));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "9xH100 | tensor=3 | 32 heads of attention are not divisible by tensor 3",
                "9xH100 | pipeline=9 | 32 layers are not divisible by pipeline 9",
                "8xH100 | tensor=3 | 8xH100 cannot be dealt out by tensor 3",
                "8xH100 | tenser=8 | did you mean tensor?"
            })
    void a_mesh_that_cannot_be_ends_with_2_and_says_why(String hardware, String mesh, String why) {
        CommandLine run = plan("llama3-8b", "--hardware", hardware, "--mesh", mesh);
        assertEquals(ExitCode.USAGE, run.code(), run.out());
        assertTrue(run.err().replaceAll("\\s+", " ").contains(why), run.err());
    }

    @ParameterizedTest
    @ValueSource(strings = {"{\"model_type\": \"llama\"}", "{\"model_type\": \"bert\"}", "{}", "[1]", "{"})
    void a_configuration_that_is_no_decoders_ends_with_3(String json) throws IOException {
        Path file = Files.writeString(folder.resolve("config.json"), json);
        CommandLine run = CommandLine.run("plan", file.toString(), "--hardware", "8xH100");
        assertEquals(ExitCode.INPUT, run.code(), run.err());
    }

    @Test
    void learned_positions_are_not_exceeded() {
        CommandLine run = plan("gpt3-175b", "--hardware", "64xA100", "--sequence", "4096");
        assertEquals(ExitCode.USAGE, run.code());
        assertTrue(run.err().contains("2048 learned positions"), run.err());
    }

    @Test
    void a_run_on_this_machine_is_planned_with_its_graph() throws IOException {
        Path config = yaml("batch_size: 4");
        CommandLine run = CommandLine.run("plan", GPT2, "--config", config.toString());
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertTrue(run.out().contains("fits     yes"), run.out());
    }

    @Test
    void any_model_that_trains_is_planned_on_gpus_by_its_graph() throws IOException {
        String bert = TinyBert.MODEL.toString();
        TinyBert.samples(folder.resolve("samples.npz"), 8, 1);
        Path config = Files.write(
                folder.resolve("bert.yaml"),
                List.of(
                        "data: {train: samples.npz}",
                        "loss: {type: mse, output: logits, distillation: {teacher: " + bert + "}}",
                        "batch_size: 2",
                        "gradient_accumulation: 4",
                        "steps: 2"));
        CommandLine run = CommandLine.run("plan", bert, "--config", config.toString(), "--hardware", "4xL4");
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertTrue(run.out().contains("samples/s"), run.out());
    }

    @Test
    void a_run_that_cannot_fit_is_refused_before_it_starts_with_a_change_that_does() throws IOException {
        long memory = HostMemory.find().map(HostMemory::limitBytes).orElse(Long.MAX_VALUE);
        assumeTrue(memory < 150_000_000_000L, "the run of 215 GB may fit this machine, or its memory is not known");
        Path config = yaml("batch_size: 1048576", "gradient_accumulation: 1");
        Path out = folder.resolve("run");
        String[] words = {"train", GPT2, "--config", config.toString(), "-o", out.toString()};
        CommandLine refused = CommandLine.run(words);
        assertEquals(ExitCode.UNAVAILABLE, refused.code(), refused.err());
        assertTrue(refused.err().contains("--set"), refused.err());
        assertTrue(refused.err().contains("fits, with"), refused.err());
        assertTrue(refused.err().contains("--no-memory-check"), refused.err());
        assertFalse(Files.exists(out), "nothing was begun");

        CommandLine dry = CommandLine.run(
                Stream.concat(Stream.of(words), Stream.of("--dry-run")).toArray(String[]::new));
        assertEquals(ExitCode.OK, dry.code(), dry.err());
        assertTrue(dry.out().contains("this machine has"), dry.out());

        CommandLine planned = CommandLine.run("plan", GPT2, "--config", config.toString());
        assertEquals(ExitCode.CHECK_FAILED, planned.code(), planned.err());
        assertTrue(planned.out().contains("octet train refuses it"), planned.out());
    }

    @Test
    void a_plan_of_quantising_has_the_bytes_that_quantize_reads_and_writes() throws IOException {
        String model = TESTDATA.resolve("checkpoints/llama-128").toString();
        String output = folder.resolve("out").toString();
        for (String recipe : List.of("fp8-dynamic", "nvfp4", "int4")) {
            JsonNode plan = new ObjectMapper()
                    .readTree(CommandLine.run("plan", model, "--recipe", recipe, "-o", output, "--json")
                            .out());
            assertEquals(
                    ExitCode.OK,
                    CommandLine.run("quantize", model, "-o", output, "--recipe", recipe, "--force")
                            .code());
            long written = 0;
            try (DirectoryStream<Path> files = Files.newDirectoryStream(folder.resolve("out"), "*.safetensors")) {
                for (Path file : files) {
                    written += Files.size(file);
                }
            }
            assertEquals(written, plan.get("target_bytes").longValue(), recipe);
            assertEquals(14, plan.get("weights").intValue(), recipe);
            assertTrue(plan.get("seconds").doubleValue() > 0, recipe);
        }
    }

    @Test
    void a_plan_of_quantising_leaves_nothing() throws IOException {
        String model = TESTDATA.resolve("checkpoints/llama-128").toString();
        CommandLine run = CommandLine.run(
                "plan",
                model,
                "--recipe",
                "fp8-block",
                "-o",
                folder.resolve("deep/er/out").toString());
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertTrue(run.out().contains("14 weights to fp8-block, layout fp8, in 2 files"), run.out());
        try (Stream<Path> left = Files.list(folder)) {
            assertEquals(List.of(), left.toList());
        }
    }

    @Test
    void options_of_training_and_of_quantising_do_not_go_together() {
        String model = TESTDATA.resolve("checkpoints/llama-128").toString();
        CommandLine both = CommandLine.run("plan", model, "--recipe", "fp8-dynamic", "--hardware", "8xH100");
        assertEquals(ExitCode.USAGE, both.code());
        assertTrue(both.err().contains("--hardware is for training"), both.err());
        CommandLine without = CommandLine.run("plan", model, "--target", "modelopt");
        assertEquals(ExitCode.USAGE, without.code());
        assertTrue(without.err().contains("add --recipe NAME"), without.err());
        CommandLine onnx = CommandLine.run("plan", GPT2 + "/none.onnx", "--recipe", "fp8-dynamic");
        assertEquals(ExitCode.IO, onnx.code());
    }
}
