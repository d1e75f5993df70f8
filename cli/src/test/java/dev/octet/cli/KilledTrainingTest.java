package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code octet train} as a process that is killed, interrupted, and resumed. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class KilledTrainingTest {
    private static final Path ROOT = Path.of(System.getProperty("octet.root", ".."));
    private static final String MODEL =
            ROOT.resolve("testdata/models/tiny-onnx/gpt2_eager_dynamo18.onnx").toString();
    private static final int STEPS = 30;
    private static final String DELAYED = "{mode: fp8, recipe: delayed, amax_history_len: 4}";

    @TempDir
    Path folder;

    @BeforeEach
    void make() throws IOException {
        byte[] tokens = new byte[2 * 600];
        SplittableRandom random = new SplittableRandom(3);
        for (int i = 0; i < tokens.length; i += 2) {
            tokens[i] = (byte) random.nextInt(100);
        }
        Files.write(folder.resolve("tokens.bin"), tokens);
        config("steps: " + STEPS, "precision: " + DELAYED);
    }

    private void config(String... lines) throws IOException {
        Files.writeString(folder.resolve("c.yaml"), """
            data: {train: tokens.bin, sequence: 8}
            loss: {type: causal-lm}
            batch_size: 2
            optimizer: {type: adamw, lr: 1.0e-3}
            checkpoint: {every: 1, keep: 2}
            """ + String.join("\n", lines) + "\n");
    }

    private List<String> words(String run, String... more) {
        List<String> words = new ArrayList<>(List.of(
                "train",
                MODEL,
                "--config",
                folder.resolve("c.yaml").toString(),
                "-o",
                folder.resolve(run).toString(),
                "--threads",
                "2"));
        words.addAll(Arrays.asList(more));
        return words;
    }

    private Process start(List<String> words) throws IOException {
        return Child.start(Child.octet(words), folder.resolve("child.txt"));
    }

    private static CommandLine run(List<String> words) {
        return CommandLine.run(words.toArray(String[]::new));
    }

    private static long newest(Path run) throws IOException {
        Path checkpoints = run.resolve("checkpoints");
        if (!Files.isDirectory(checkpoints)) {
            return 0;
        }
        try (var entries = Files.list(checkpoints)) {
            return entries.map(p -> p.getFileName().toString())
                    .filter(n -> n.startsWith("step-"))
                    .mapToLong(n -> Long.parseLong(n.substring(5)))
                    .max()
                    .orElse(0);
        }
    }

    /** Waits until the run is that far; false when the process ended before. */
    private static boolean waitFor(Process process, Path run, long step) throws Exception {
        while (!process.waitFor(1, TimeUnit.MILLISECONDS)) {
            if (newest(run) >= step) {
                return true;
            }
        }
        return false;
    }

    /** Native kernels ran over the end of such a stack: the process was gone without a word. */
    @Test
    void a_run_does_not_depend_on_the_size_of_stacks() throws Exception {
        List<String> words = Child.java("-Xss512k");
        words.add(Start.class.getName());
        words.addAll(words("small-stack"));
        Process process = Child.start(words, folder.resolve("child.txt"));
        assertEquals(0, process.waitFor(), Files.readString(folder.resolve("child.txt")));
        assertEquals(STEPS, newest(folder.resolve("small-stack")));
    }

    private static void assertSame(Path a, Path b) throws IOException {
        for (String file : List.of("parameters.safetensors", "state.safetensors", "checkpoint.json")) {
            Path name = Path.of("checkpoints", "step-" + STEPS, file);
            assertArrayEquals(Files.readAllBytes(a.resolve(name)), Files.readAllBytes(b.resolve(name)), file);
        }
    }

    @Test
    void a_run_that_is_killed_again_and_again_ends_with_the_same_bytes() throws Exception {
        killedAgainAndAgain(DELAYED);
    }

    @Tag("sweep")
    @ParameterizedTest
    @ValueSource(
            strings = {
                "{mode: fp32}",
                "{mode: bf16}",
                "{mode: fp16, loss_scale: {type: torch, growth_interval: 5}}",
                "{mode: fp16, loss_scale: {type: deepspeed}}",
                "{mode: O1}",
                "{mode: O2}",
                "{mode: O3}",
                "{mode: fp8, recipe: delayed, amax_compute_algo: most_recent, base: fp32, fused_update: false}",
                "{mode: fp8, recipe: current}",
                "{mode: fp8, recipe: block}",
                "{mode: fp8, recipe: mxfp8}",
                "{mode: fp8, recipe: tensorwise}",
                "{mode: fp8, recipe: rowwise, base: fp16}",
                "{mode: fp8, recipe: rowwise_with_gw_hp}",
                "{mode: fp8, recipe: deployed}",
                "{mode: fp8, recipe: delayed, fake_quantize: true}"
            })
    void so_does_one_in_any_precision(String precision) throws Exception {
        config("steps: " + STEPS, "precision: " + precision);
        killedAgainAndAgain(precision);
    }

    private void killedAgainAndAgain(String precision) throws Exception {
        assertEquals(ExitCode.OK, run(words("whole", "--quiet")).code());
        Path run = folder.resolve("killed");
        SplittableRandom random = new SplittableRandom(precision.hashCode());
        for (int round = 0; round < 3; round++) {
            List<String> words = words("killed", "--quiet");
            if (newest(run) > 0) {
                words.add("--resume");
            }
            Process process = start(words);
            try {
                waitFor(process, run, newest(run) + 1 + random.nextInt(9));
            } finally {
                process.destroyForcibly().waitFor();
            }
        }
        assertTrue(newest(run) > 0, Files.readString(folder.resolve("child.txt")));
        if (newest(run) < STEPS) {
            CommandLine last = run(words("killed", "--quiet", "--resume"));
            assertEquals(ExitCode.OK, last.code(), last.err());
        }
        assertSame(folder.resolve("whole"), run);
    }

    @Test
    void a_run_that_is_interrupted_writes_a_checkpoint_and_says_how_to_go_on() throws Exception {
        config("steps: 1000000");
        Path run = folder.resolve("interrupted");
        Process process = start(words("interrupted", "--progress", "plain"));
        try {
            assertTrue(waitFor(process, run, 3), Files.readString(folder.resolve("child.txt")));
            process.destroy(); // the same request to end as Ctrl-C, to a JVM
            assertTrue(process.waitFor(60, TimeUnit.SECONDS));
        } finally {
            process.destroyForcibly().waitFor();
        }
        String printed = Files.readString(folder.resolve("child.txt"));
        assertTrue(printed.contains("interrupted at step " + newest(run)), printed);
        assertTrue(printed.contains("--resume"), printed);
    }

    @Test
    void a_full_disk_names_the_checkpoint_and_leaves_nothing_of_it() throws Exception {
        assumeTrue(Files.isExecutable(Path.of("/bin/bash")), "there is no bash to set a limit");
        // no file may have more than 100 KiB; the parameters have 136
        List<String> limited = new ArrayList<>(List.of("/bin/bash", "-c", "ulimit -f 100; exec \"$@\"", "limited"));
        limited.addAll(Child.octet(words("full", "--quiet")));
        limited.add(5, "-XX:-UsePerfData");
        Process process = Child.start(limited, folder.resolve("child.txt"));
        assertEquals(ExitCode.IO.number(), process.waitFor());
        String printed = Files.readString(folder.resolve("child.txt"));
        Path checkpoints = folder.resolve("full").resolve("checkpoints");
        assertTrue(printed.contains("where: " + checkpoints.resolve("step-1")), printed);
        try (var left = Files.list(checkpoints)) {
            assertEquals(List.of(), left.toList());
        }
    }

    @Test
    void a_dry_run_says_what_would_be_trained_and_writes_nothing() throws IOException {
        CommandLine line = run(words("dry", "--dry-run", "--json"));
        assertEquals(ExitCode.OK, line.code(), line.err());
        JsonNode plan = new ObjectMapper().readTree(line.out());
        assertTrue(plan.get("trained_parameters").asLong() > 30_000, line.out());
        assertTrue(plan.get("temporary_bytes").asLong() > 0, line.out());
        assertEquals(9, plan.get("fp8_linears").asInt(), line.out());
        assertEquals(1, plan.get("seed").asInt());
        assertTrue(Files.notExists(folder.resolve("dry")));
    }

    @Test
    void a_dry_run_names_what_is_not_in_fp8_and_why() throws IOException {
        Files.writeString(
                folder.resolve("c.yaml"),
                Files.readString(folder.resolve("c.yaml"))
                        .replace("amax_history_len: 4", "exempt_last: true, layers: [{match: c_proj, fp8: false}]"));
        String out = run(words("dry", "--dry-run")).out();
        assertTrue(out.contains("4 of 9 matrix products"), out);
        assertTrue(out.contains("1: the last, by exempt_last: /m/lm_head"), out);
        assertTrue(out.contains("4: fp8: false for layers matching 'c_proj': "), out);
        assertTrue(out.contains(" and 1 more"), out);
        JsonNode plan = new ObjectMapper()
                .readTree(run(words("dry", "--dry-run", "--json")).out());
        assertEquals(
                4, plan.at("/kept/0/nodes").size() * plan.at("/kept/1/nodes").size());
    }

    @Test
    void the_end_shows_the_health_of_fp8_and_what_can_be_done_next() throws IOException {
        CommandLine half = run(words("half", "--json", "--steps", "12"));
        JsonNode end = new ObjectMapper().readTree(half.out());
        assertTrue(end.get("resume").asText().endsWith("--resume " + folder.resolve("half")), half.out());
        assertTrue(end.get("export").asText().contains("octet export " + folder.resolve("half") + " -o "), half.out());
        assertTrue(end.get("fp8_health").isNull(), "step 30 is the first that is measured");
        CommandLine rest = run(words("half", "--resume", "--progress", "plain"));
        assertTrue(rest.out().contains("FP8 at step 30, worst tensors first"), rest.out());
        assertTrue(
                rest.err().matches("(?s).*step 30/30 .* fp8 clip \\d+\\.\\d\\d% uflow \\d+\\.\\d\\d%.*"), rest.err());
        assertTrue(Files.exists(folder.resolve("half/fp8_health.jsonl")));
        assertEquals(ExitCode.OK, rest.code());
    }

    @Test
    void clipping_is_told_even_when_nothing_else_is() throws IOException {
        Files.writeString(
                folder.resolve("c.yaml"),
                Files.readString(folder.resolve("c.yaml")).replace("amax_history_len: 4", "margin: -8")
                        + "fp8_health: {every: 2}\n");
        String err = run(words("clips", "--quiet", "--steps", "4")).err();
        List<String> lines = err.lines().filter(l -> l.startsWith("step ")).toList();
        assertTrue(
                lines.getFirst()
                        .matches("step 2: [\\d.]+% of m\\.transformer\\.\\S+ clipped: amax \\S+, its scale has room for"
                                + " \\S+"),
                err);
        assertTrue(lines.get(3).matches("step 2: and \\d+ more tensors in FP8, see fp8_health.jsonl"), err);
        assertTrue(lines.size() <= 8, "said once, not at each measurement: " + err);
    }

    @Test
    void wrong_use_is_refused_with_its_exit_code() throws IOException {
        assertEquals(ExitCode.USAGE, CommandLine.run("train", MODEL, "-o", "x").code());
        assertEquals(ExitCode.USAGE, run(words("x", "--from-step", "3")).code());
        assertEquals(ExitCode.USAGE, run(words("x", "--resume", "--dry-run")).code());
        assertEquals(ExitCode.USAGE, run(words("x", "--device", "tpu")).code());
        assertEquals(
                ExitCode.UNAVAILABLE, run(words("x", "--device", "cuda:9999")).code());
        config("steps: 10", "freeze: [nothing]");
        assertEquals(ExitCode.USAGE, run(words("x")).code());
        config("steps: 10", "batch_sise: 4");
        assertTrue(run(words("x")).err().contains("did you mean batch_size"));
    }
}
