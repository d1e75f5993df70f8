package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Octet as a process that the system asks to end. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SignalTest {
    private static final Path ROOT = Path.of(System.getProperty("octet.root", ".."));
    private static final Path MODELS = ROOT.resolve("testdata/models");
    private static final String MODEL =
            MODELS.resolve("tiny-onnx/gpt2_eager_dynamo18.onnx").toString();

    @TempDir
    Path folder;

    @BeforeEach
    void make() throws IOException {
        assumeTrue(
                Files.isReadable(Path.of("/proc/self/status")), "there is no /proc to see which signals are ignored");
        assumeTrue(!ignores(2), "whoever started this ignores Ctrl-C, and so would its children");
        byte[] tokens = new byte[2 * 600];
        SplittableRandom random = new SplittableRandom(3);
        for (int i = 0; i < tokens.length; i += 2) {
            tokens[i] = (byte) random.nextInt(100);
        }
        Files.write(folder.resolve("tokens.bin"), tokens);
        config(2);
    }

    /** Whether this process ignores a signal, given by its number, and its children with it: HUP (1) under nohup, INT (2) in the background. */
    private static boolean ignores(int signal) throws IOException {
        try (Stream<String> lines = Files.lines(Path.of("/proc/self/status"))) {
            return lines.filter(l -> l.startsWith("SigIgn:"))
                    .anyMatch(l -> (Long.parseUnsignedLong(l.substring(7).strip(), 16) & (1L << (signal - 1))) != 0);
        }
    }

    private void config(int batch) throws IOException {
        Files.writeString(folder.resolve("c.yaml"), """
            data: {train: tokens.bin, sequence: 8}
            loss: {type: causal-lm}
            batch_size: %d
            optimizer: {type: adamw, lr: 1.0e-3}
            steps: 1000000
            """.formatted(batch));
    }

    private List<String> train(String run, String... more) {
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

    private Path printed() {
        return folder.resolve("child.txt");
    }

    private String text() {
        try {
            return Files.readString(printed());
        } catch (IOException e) {
            return e.toString();
        }
    }

    /** Starts Octet, sends the signal as soon as {@code when} holds, and gives the exit code. */
    private int signalled(List<String> words, String signal, BooleanSupplier when) throws Exception {
        Process process = Child.start(Child.octet(words), printed());
        try {
            waitUntil(process, when);
            send(process, signal);
            return exitCode(process);
        } finally {
            process.destroyForcibly().waitFor();
        }
    }

    private void waitUntil(Process process, BooleanSupplier when) throws Exception {
        while (!when.getAsBoolean()) {
            assertTrue(!process.waitFor(1, TimeUnit.MILLISECONDS), "it ended before: " + text());
        }
    }

    private static void send(Process process, String signal) throws Exception {
        assertEquals(
                0,
                new ProcessBuilder("kill", "-" + signal, String.valueOf(process.pid()))
                        .start()
                        .waitFor());
    }

    private int exitCode(Process process) throws InterruptedException {
        assertTrue(process.waitFor(120, TimeUnit.SECONDS), () -> "it continues: " + text());
        return process.exitValue();
    }

    private static long steps(Path run) throws IOException {
        Path metrics = run.resolve("metrics.jsonl");
        return Files.exists(metrics) ? Files.readAllLines(metrics).size() : 0;
    }

    @ParameterizedTest
    @CsvSource({"INT,130", "TERM,143", "HUP,129"})
    void a_signal_as_soon_as_a_run_has_its_lock_ends_it(String signal, int code) throws Exception {
        assumeTrue(!ignores(code - 128), "whoever started this ignores " + signal + ", and so would its children");
        Path run = folder.resolve("run");
        Path lock = run.resolve(".octet-lock");
        assertEquals(code, signalled(train("run", "--quiet"), signal, () -> Files.exists(lock)), text());
        assertTrue(Files.notExists(lock));
        assertTrue(steps(run) <= 1, "one step at most: the signal came before the first");
        assertEquals(ExitCode.OK, again("--steps", "3"));
        assertEquals(code, signalled(train("run", "--quiet", "--resume"), signal, () -> Files.exists(lock)), text());
        assertTrue(Files.notExists(lock));
        assertEquals(ExitCode.OK, again("--resume", "--steps", "1"));
    }

    /** The folder is as good as it was; a run that was quick enough for a step has a checkpoint to continue from. */
    private ExitCode again(String... more) {
        List<String> words = train("run", "--quiet");
        words.addAll(Arrays.asList(more));
        if (Files.isDirectory(folder.resolve("run/checkpoints")) && !words.contains("--resume")) {
            words.add("--resume");
        }
        CommandLine line = CommandLine.run(words.toArray(String[]::new));
        return line.code();
    }

    @Test
    void a_second_signal_ends_a_run_whose_step_takes_long_at_once() throws Exception {
        config(200_000 / 8); // in double precision on one thread: minutes
        Files.write(folder.resolve("tokens.bin"), new byte[2 * 400_000]);
        Process process =
                Child.start(Child.octet(train("long", "--device", "reference", "--progress", "plain")), printed());
        try {
            waitUntil(process, () -> text().contains("metrics"));
            send(process, "INT");
            waitUntil(process, () -> text().contains("the run ends after this step"));
            send(process, "INT");
            assertEquals(130, exitCode(process), text());
        } finally {
            process.destroyForcibly().waitFor();
        }
        assertEquals(0, steps(folder.resolve("long")));
    }

    /** Verbs whose inputs are at hand, with the beginning of a name that they make in the folder of temporary files or next to the output. */
    static Stream<Arguments> others() {
        String bert = MODELS.resolve("tiny-onnx/bert_eager_dynamo18.onnx").toString();
        String llama = MODELS.resolve("tiny-hf/llama").toString();
        return Stream.of(
                Arguments.of("octet-tapped", List.of("calibrate", bert, "-o", "OUT", "--data", "DATA")),
                Arguments.of("octet-tapped", List.of("calibrate", llama, "-o", "OUT", "--data", "DATA")),
                Arguments.of("octet-tapped", List.of("quantize", bert, "-o", "OUT.onnx", "--calibration", "DATA")),
                Arguments.of(".octet-", List.of("quantize", llama, "-o", "OUT", "--recipe", "fp8-dynamic")));
    }

    @ParameterizedTest
    @MethodSource("others")
    void other_verbs_end_at_once_and_leave_no_scratch_files(String begun, List<String> words) throws Exception {
        Path scratch = Files.createDirectory(folder.resolve("scratch"));
        Path data = folder.resolve("data.npz");
        int rows = 4000;
        try (NpzWriter writer = NpzWriter.stored(data);
                Arena arena = Arena.ofConfined()) {
            for (String input : List.of("input_ids", "attention_mask")) {
                writer.add(Tensor.allocate(arena, new TensorSpec(input, DType.I64, Shape.of(rows, 8))));
            }
            writer.commit();
        }
        List<String> command = Child.java("-Djava.io.tmpdir=" + scratch);
        command.add(Start.class.getName());
        for (String word : words) {
            command.add(word.replace("OUT", scratch.resolve("out").toString()).replace("DATA", data.toString()));
        }
        Process process = Child.start(command, printed());
        try {
            waitUntil(process, () -> !named(scratch, begun).isEmpty());
            send(process, "INT");
            assertEquals(130, exitCode(process), text());
        } finally {
            process.destroyForcibly().waitFor();
        }
        List<String> left = named(scratch, "octet-");
        left.addAll(named(scratch, ".octet-lock"));
        left.addAll(named(scratch, ".out"));
        assertEquals(List.of(), left);
    }

    /** Names of files, at any depth, that begin so. */
    private static List<String> named(Path folder, String begin) {
        List<String> names = new ArrayList<>();
        try (Stream<Path> all = Files.walk(folder)) {
            all.map(p -> p.getFileName().toString())
                    .filter(n -> n.startsWith(begin))
                    .forEach(names::add);
        } catch (IOException | UncheckedIOException e) {
            names.add(e.toString()); // what was there is gone, so something has begun
        }
        return names;
    }
}
