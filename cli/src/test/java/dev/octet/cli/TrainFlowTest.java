package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.model.Model;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.pipeline.ExampleConfig;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
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
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** How a user goes about {@code octet train}: starts, breaks off, resumes, changes a value, looks at the screen. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TrainFlowTest {
    private static final Path TESTDATA =
            Path.of(System.getProperty("octet.testdata")).toAbsolutePath().normalize();
    private static final Path CLASSIFIER = TESTDATA.resolve("models/tiny-hf/bert-cls");
    private static final Path GPT2 = TESTDATA.resolve("models/tiny-lm/gpt2");
    private static final Path TOKENIZER = TESTDATA.resolve("tokenizer/words.json");
    private static final int SAMPLES = 69;

    @TempDir
    Path folder;

    /** A regression y = x W of 4 numbers to 2, of 69 samples: a step takes microseconds. */
    @BeforeEach
    void makeRegression() throws IOException {
        makeRegression(Dim.of("batch"));
    }

    private void makeRegression(Dim batch) throws IOException {
        SplittableRandom random = new SplittableRandom(1);
        try (Arena arena = Arena.ofConfined();
                NpzWriter writer = NpzWriter.stored(folder.resolve("d.npz"))) {
            writer.add(floats(arena, random, "x", SAMPLES, 4));
            writer.add(floats(arena, random, "labels", SAMPLES, 2));
            writer.commit();
            Graph graph = Graph.of(
                    "regression",
                    List.of(Node.of("product", "MatMul", List.of("x", "w"), List.of("y"))),
                    List.of(Initializer.of(floats(arena, random, "w", 4, 2))),
                    List.of(new ValueInfo("x", new TensorType(DType.F32, List.of(batch, Dim.of(4))))),
                    List.of(new ValueInfo("y", new TensorType(DType.F32, List.of(batch, Dim.of(2))))));
            ModelFile.save(Model.of(GraphModel.of(graph, 10, 21)), folder.resolve("m.onnx"));
        }
        config("steps: 20", "data: {train: d.npz}");
    }

    private static Tensor floats(Arena arena, SplittableRandom random, String name, int rows, int columns) {
        float[] x = new float[rows * columns];
        for (int i = 0; i < x.length; i++) {
            x[i] = (float) random.nextDouble(-1, 1);
        }
        return Tensor.ofFloats(arena, name, Shape.of(rows, columns), x);
    }

    private void config(String... lines) throws IOException {
        List<String> all = new ArrayList<>(List.of("loss: {type: mse}", "batch_size: 8", "optimizer: {lr: 1.0e-3}"));
        all.addAll(Arrays.asList(lines));
        Files.write(folder.resolve("c.yaml"), all);
    }

    private List<String> words(String run, String... more) {
        List<String> words = new ArrayList<>(
                List.of("train", path("m.onnx"), "--config", path("c.yaml"), "-o", path(run), "--threads", "1"));
        words.addAll(Arrays.asList(more));
        return words;
    }

    private String path(String name) {
        return folder.resolve(name).toString();
    }

    private CommandLine train(String run, String... more) {
        return CommandLine.run(words(run, more).toArray(String[]::new));
    }

    private static CommandLine good(CommandLine line) {
        assertEquals(ExitCode.OK, line.code(), line.err());
        return line;
    }

    private List<JsonNode> metrics(String run) throws IOException {
        List<JsonNode> lines = new ArrayList<>();
        for (String line : Files.readAllLines(folder.resolve(run).resolve("metrics.jsonl"))) {
            lines.add(new ObjectMapper().readTree(line));
        }
        return lines;
    }

    @Test
    void a_killed_run_that_said_nothing_of_checkpoints_goes_on_from_one() throws Exception {
        config("steps: 100000000", "data: {train: d.npz}");
        Process process = Child.start(Child.octet(words("run", "--quiet")), folder.resolve("child.txt"));
        while (process.isAlive() && !Files.exists(folder.resolve("run/checkpoints/step-500"))) {
            process.waitFor(5, TimeUnit.MILLISECONDS);
        }
        process.destroyForcibly(); // kill -9
        process.waitFor();
        assertTrue(Files.exists(folder.resolve("run/checkpoints")), Files.readString(folder.resolve("child.txt")));
        CommandLine line = good(CommandLine.run("train", "--resume", path("run"), "--steps", "3", "--json"));
        long step = new ObjectMapper().readTree(line.out()).get("step").asLong();
        assertTrue(step % 500 == 3 && step > 500, line.out());
    }

    @Test
    void a_run_knows_its_model_and_its_configuration_when_it_is_resumed() throws IOException {
        good(train("whole"));
        CommandLine half = good(train("half", "--steps", "8"));
        assertTrue(half.out().contains("octet train --resume " + path("half") + "\n"), half.out());
        // the configuration is the run's own copy: that of the start may be gone
        Files.delete(folder.resolve("c.yaml"));
        good(CommandLine.run("train", "--resume", path("half")));
        String weights = "checkpoints/step-20/parameters.safetensors";
        assertEquals(
                -1L,
                Files.mismatch(
                        folder.resolve("whole").resolve(weights),
                        folder.resolve("half").resolve(weights)));
    }

    @Test
    void a_run_whose_model_lies_elsewhere_is_resumed_with_model_and_with_no_other() throws IOException {
        good(train("run", "--steps", "8"));
        Path moved = Files.move(folder.resolve("m.onnx"), folder.resolve("moved.onnx"));
        CommandLine lost = CommandLine.run("train", "--resume", path("run"));
        assertEquals(ExitCode.USAGE, lost.code());
        assertTrue(lost.err().contains("say where it lies with --model MODEL"), lost.err());
        CommandLine other = CommandLine.run("train", "--resume", path("run"), "--model", GPT2.toString());
        assertFalse(other.code() == ExitCode.OK, other.err());
        good(CommandLine.run("train", "--resume", path("run"), "--model", moved.toString(), "--steps", "2"));
        // the model as the argument, the run as the output
        good(CommandLine.run("train", moved.toString(), "--resume", "-o", path("run"), "--steps", "2"));
    }

    @Test
    void a_value_given_on_the_command_line_is_used_and_kept_by_the_run() throws IOException {
        good(train("run", "--set", "optimizer.lr=1e-4", "--set", "steps=6", "--set", "seed=3"));
        assertEquals(6, metrics("run").size());
        assertEquals(1e-4, metrics("run").getFirst().get("lr").asDouble());
        List<String> kept = Files.readAllLines(folder.resolve("run/config.yaml"));
        assertTrue(kept.contains("# --set optimizer.lr=1e-4"), kept.toString());
        assertTrue(kept.contains("optimizer: {lr: 1e-4}"), kept.toString());
        JsonNode manifest =
                new ObjectMapper().readTree(folder.resolve("run/run.json").toFile());
        assertEquals("1.0E-4", manifest.at("/settings/optimizer.lr").asText());
        assertTrue(manifest.at("/sessions/0/command")
                .asText()
                .endsWith(" --set optimizer.lr=1e-4 --set steps=6 --set seed=3"));
        // and once more when it goes on
        CommandLine longer = good(CommandLine.run("train", "--resume", path("run"), "--set", "steps=9"));
        assertTrue(longer.out().contains("completed at step 9"), longer.out());
        assertEquals(1e-4, metrics("run").getLast().get("lr").asDouble());
        CommandLine wrong = train("wrong", "--set", "optimizer.larning=1");
        assertEquals(ExitCode.USAGE, wrong.code());
        assertTrue(wrong.err().contains("where: --set optimizer.larning=1, key optimizer.larning"), wrong.err());
    }

    @Test
    void all_samples_are_evaluated_at_the_end_and_the_page_says_how_many() throws IOException {
        config("steps: 20", "data: {train: d.npz, eval: d.npz}");
        CommandLine line = good(train("run"));
        JsonNode last = metrics("run").getLast();
        assertEquals(SAMPLES, last.get("eval_samples").asInt());
        assertEquals(20, last.get("step").asInt());
        assertTrue(line.err().contains(" over 69 samples"), line.err());
        assertTrue(line.out().contains("evaluation  "), line.out());
    }

    /** A model for eight rows exactly cannot read the last five of 69. */
    @Test
    void samples_that_a_model_of_a_fixed_batch_cannot_read_are_counted() throws IOException {
        makeRegression(Dim.of(8));
        config("steps: 2", "data: {train: d.npz, eval: d.npz}");
        CommandLine line = good(train("run"));
        assertTrue(line.err().contains(" over 64 of 69 samples"), line.err());
    }

    @Test
    void epochs_are_read_shown_and_written() throws IOException {
        config("epochs: 2.5", "data: {train: d.npz}", "schedule: {type: linear, warmup: 10%}");
        CommandLine line = good(train("run"));
        // 8 batches of 8 of 69 samples
        assertTrue(line.err().contains("20 (2.5 epochs) of 1 x 8 samples"), line.err());
        assertTrue(line.err().contains("linear after 2 steps of warm-up"), line.err());
        assertEquals(2.5, metrics("run").getLast().get("epoch").asDouble());
    }

    @Test
    void the_running_loss_of_a_resumed_run_continues() throws IOException {
        good(train("whole", "--progress", "plain", "--log-every", "1"));
        good(train("half", "--steps", "8"));
        CommandLine resumed =
                good(CommandLine.run("train", "--resume", path("half"), "--progress", "plain", "--log-every", "1"));
        CommandLine whole = good(train("again", "--progress", "plain", "--log-every", "1"));
        assertEquals(ema(whole.err(), 9), ema(resumed.err(), 9));
        assertEquals(ema(whole.err(), 20), ema(resumed.err(), 20));
    }

    private static String ema(String err, int step) {
        String line = err.lines()
                .filter(l -> l.startsWith("step " + step + "/20 "))
                .findFirst()
                .orElseThrow();
        return line.replaceFirst(".*  (ema [\\d.]+)  .*", "$1");
    }

    /** The model is not one: whoever opened it first would say so. */
    @Test
    void what_is_cheap_to_check_is_checked_before_the_model_is_opened() throws IOException {
        good(train("run", "--steps", "2"));
        Files.writeString(folder.resolve("m.onnx"), "not a model");
        assertRefused(train("run"), "there is a run in the folder, up to step 2");
        assertRefused(train("new", "--resume"), "there is no checkpoint to resume from");
        assertRefused(CommandLine.run("train", path("run")), "octet train --resume " + path("run") + " goes on");
        assertRefused(train("new", "--set", "data.train=none.npz"), "none.npz");
        assertRefused(train("new", "--set", "data.eval=none.npz"), "none.npz");
        assertRefused(train("new", "--set", "stps=3"), "unknown key 'stps'");
        assertRefused(train("new", "--set", "loss.distillation={teacher: none.onnx}"), "none.onnx");
        Files.writeString(folder.resolve("t.jsonl"), "{\"text\": \"a\"}\n");
        CommandLine tokenizer = train("new", "--set", "data.train=t.jsonl");
        assertRefused(tokenizer, "texts need the model's tokenizer, and there is no ");
        assertTrue(tokenizer.err().contains("add data: {tokenizer: tokenizer.json}"), tokenizer.err());
    }

    private static void assertRefused(CommandLine line, String told) {
        assertFalse(line.code() == ExitCode.OK);
        assertTrue(line.err().contains(told), line.err());
    }

    private void labelled(String... thirdLines) throws IOException {
        List<String> lines = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            String text = List.of("the cat and the cat", "a dog ran over", "the hill far")
                    .get(i % 3);
            lines.add("{\"text\": \"" + text + "\", \"label\": " + i % 3 + ", \"score\": " + i / 8.0 + "}");
        }
        if (thirdLines.length > 0) {
            lines.set(2, thirdLines[0]);
        }
        Files.write(folder.resolve("t.jsonl"), lines);
        Files.writeString(
                folder.resolve("c.yaml"),
                "data: {train: t.jsonl, tokenizer: '" + TOKENIZER + "'}\n"
                        + "loss: {type: cross-entropy, labels: label}\n"
                        + "batch_size: 4\nsteps: 30\noptimizer: {lr: 1.0e-2}\n");
    }

    private CommandLine classify(String run, String... more) {
        List<String> words = words(run, more);
        words.set(1, CLASSIFIER.toString());
        return CommandLine.run(words.toArray(String[]::new));
    }

    @Test
    void texts_with_labels_train_a_classifier() throws IOException {
        labelled();
        good(classify("run"));
        double first = metrics("run").getFirst().get("loss").asDouble();
        double last = metrics("run").getLast().get("loss").asDouble();
        assertEquals(Math.log(3), first, 0.3); // three classes, not a vocabulary
        assertTrue(last < 0.5 * first, first + " to " + last);
    }

    @Test
    void a_text_that_does_not_count_has_the_ignored_label() throws IOException {
        labelled("{\"text\": \"the cat\", \"label\": -100}");
        good(classify("run", "--set", "steps=2"));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "{\"text\": \"a\"}                     | the object has no \"label\"",
                "{\"text\": \"a\", \"label\": null}    | the object has no \"label\"",
                "{\"text\": \"a\", \"label\": 3}       | \"label\" is 3, classes are 0 to 2",
                "{\"text\": \"a\", \"label\": -1}      | \"label\" is -1, classes are 0 to 2",
                "{\"text\": \"a\", \"label\": 0.5}     | \"label\" is not a whole number",
                "{\"text\": \"a\", \"label\": \"no\"}  | \"label\" is not a number: no",
                "{\"text\": \"a\", \"label\": [1, 2]}  | \"label\" is a list of 2",
                "{\"text\": \"a\", \"label\": [[1]]}   | \"label\" is not a number",
                "{\"text\": \"a\", \"label\": true}    | \"label\" is not a number: true",
            })
    void a_label_that_is_missing_or_no_class_is_named_with_its_line(String line, String what) throws IOException {
        labelled(line);
        CommandLine refused = classify("run");
        assertEquals(ExitCode.INPUT, refused.code(), refused.err());
        assertTrue(refused.err().contains(what), refused.err());
        assertTrue(refused.err().contains("t.jsonl, line 3"), refused.err());
    }

    @Test
    void labels_under_a_key_that_no_text_has_are_asked_for() throws IOException {
        labelled();
        CommandLine refused = classify("run", "--set", "loss.labels=labels");
        assertEquals(ExitCode.INPUT, refused.code(), refused.err());
        assertTrue(refused.err().contains("no text has a \"labels\""), refused.err());
    }

    /** Three numbers for three outputs. */
    @Test
    void texts_with_numbers_train_a_regression() throws IOException {
        labelled();
        Path texts = folder.resolve("t.jsonl");
        Files.writeString(texts, Files.readString(texts).replaceAll("\"score\": ([\\d.]+)", "\"score\": [$1, 0.5, 1]"));
        good(classify("run", "--set", "loss={type: mse, labels: score}"));
        double last = metrics("run").getLast().get("loss").asDouble();
        assertTrue(last < 0.3 * metrics("run").getFirst().get("loss").asDouble(), "" + last);
        assertRefused(
                classify("one", "--set", "loss={type: mse, labels: label}"), "\"label\" has 1 numbers, the output 3");
    }

    @ParameterizedTest
    @EnumSource(ExampleConfig.class)
    void each_example_of_a_configuration_trains(ExampleConfig example) throws IOException {
        CommandLine printed = good(CommandLine.run("train", "--example-config", example.key()));
        Files.writeString(folder.resolve("c.yaml"), printed.out());
        labelled();
        Files.writeString(folder.resolve("c.yaml"), printed.out());
        ByteBuffer tokens = ByteBuffer.allocate(2 * 512).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < 512; i++) {
            tokens.putShort((short) (i % 90));
        }
        Files.write(folder.resolve("t.bin"), tokens.array());
        String texts = TESTDATA.resolve("text/eval.jsonl").toString();
        List<String> set = switch (example) {
            case LANGUAGE_MODEL, ADAPTER -> List.of("data.train=" + texts, "data.eval=" + texts, "data.sequence=32");
            case CLASSIFIER -> List.of("data.train=t.jsonl", "data.eval=t.jsonl", "data.tokenizer=" + TOKENIZER);
            case DISTILLATION, QUANTIZATION_AWARE ->
                List.of("data.train=" + texts, "data.eval=" + texts, "loss.distillation.teacher=" + GPT2);
            case FROM_SCRATCH -> List.of("data.train=t.bin", "data.eval=t.bin", "data.sequence=16");
        };
        List<String> words = words("run", "--set", "steps=2", "--set", "epochs=null", "--set", "batch_size=2");
        set.forEach(s -> words.addAll(List.of("--set", s)));
        words.addAll(List.of("--set", "gradient_accumulation=1"));
        words.set(1, (example == ExampleConfig.CLASSIFIER ? CLASSIFIER : GPT2).toString());
        CommandLine line = CommandLine.run(words.toArray(String[]::new));
        assertEquals(ExitCode.OK, line.code(), line.err());
        assertTrue(line.err().contains("evaluation loss"), line.err());
        assertTrue(printed.out().lines().allMatch(l -> l.length() <= 100), printed.out());
    }

    @Test
    void an_unknown_example_is_answered_with_those_there_are() {
        CommandLine line = CommandLine.run("train", "--example-config", "classifer");
        assertEquals(ExitCode.USAGE, line.code());
        assertTrue(line.err().contains("did you mean classifier?"), line.err());
        CommandLine missing = CommandLine.run("train", path("m.onnx"), "-o", path("run"));
        assertTrue(missing.err().contains("octet train --example-config"), missing.err());
    }

    private static String onTerminal(List<String> words) {
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        Screen screen = new Screen(
                new PrintStream(new ByteArrayOutputStream(), true, StandardCharsets.UTF_8),
                new PrintStream(err, true, StandardCharsets.UTF_8),
                true,
                0);
        ExitCode code = Octet.run(words, screen);
        assertEquals(ExitCode.OK, code, err.toString(StandardCharsets.UTF_8));
        return err.toString(StandardCharsets.UTF_8);
    }

    @Test
    void a_terminal_shows_one_line_that_is_rewritten_and_narrower_than_it_is() throws IOException {
        config("steps: 3000", "data: {train: d.npz, eval: d.npz}", "checkpoint: {every: 1000}");
        String err = onTerminal(words("run"));
        List<String> steps =
                Arrays.stream(err.split("\n")).filter(l -> l.contains("/3000")).toList();
        List<String> shown = Arrays.stream(err.split("[\\r\\n]+"))
                .filter(l -> l.contains("/3000"))
                .toList();
        assertTrue(shown.size() >= 2, err);
        assertTrue(shown.stream().allMatch(l -> l.length() < 80), err);
        assertTrue(shown.stream().allMatch(l -> l.contains("[")), err);
        assertTrue(shown.getLast().contains("[========]"), shown.getLast());
        // as lines: one for each event that interrupted the line, at most
        assertTrue(steps.size() <= 6, err);
        // what stays has a line of its own
        assertTrue(err.lines().anyMatch(l -> l.startsWith("step 1000: checkpoint ")), err);
        assertTrue(err.contains("eta 00:00:0"), err);
    }

    /** Nodes and weights have names of their own in a graph; a module has one in the health of FP8. */
    @Test
    void the_health_of_fp8_spells_a_module_one_way() throws IOException {
        config("steps: 1", "data: {train: d.npz}");
        String texts = TESTDATA.resolve("text/eval.jsonl").toString();
        List<String> words = words(
                "run",
                "--set",
                "data={train: " + texts + ", max_length: 16}",
                "--set",
                "loss={type: causal-lm}",
                "--set",
                "batch_size=2",
                "--set",
                "precision={mode: fp8}");
        words.set(1, GPT2.toString());
        CommandLine line = good(CommandLine.run(words.toArray(String[]::new)));
        List<String> names = new ArrayList<>();
        for (String row : Files.readAllLines(folder.resolve("run/fp8_health.jsonl"))) {
            JsonNode fields = new ObjectMapper().readTree(row);
            String tensor = fields.get("tensor").asText();
            assertTrue(tensor.startsWith(fields.get("layer").asText() + "."), row);
            names.add(tensor);
        }
        assertTrue(
                names.containsAll(List.of(
                        "transformer.h.1.mlp.c_proj.input",
                        "transformer.h.1.mlp.c_proj.weight",
                        "transformer.h.1.mlp.c_proj.grad_output")),
                names.toString());
        assertTrue(names.stream().noneMatch(n -> n.contains("/")), names.toString());
        assertFalse(line.out().contains("/transformer"), line.out());
    }

    @Test
    void lines_that_stay_fit_the_terminal_too() throws IOException {
        String err = onTerminal(words("run", "--log-every", "5", "--progress", "plain"));
        List<String> steps =
                err.lines().filter(l -> l.matches("step \\d+/20 .*")).toList();
        assertEquals(5, steps.size(), err);
        assertTrue(steps.stream().allMatch(l -> l.length() < 80 && !l.contains("[")), err);
    }

    @ParameterizedTest
    @ValueSource(strings = {"0", "-1", "2m", "s", ""})
    void a_cadence_that_is_neither_steps_nor_seconds_is_refused(String text) {
        assertEquals(ExitCode.USAGE, train("run", "--log-every", text).code());
    }

    @Test
    void lines_come_as_often_as_one_says() throws IOException {
        CommandLine line = good(train("run", "--log-every", "6"));
        assertEquals(
                List.of("step 1/20", "step 6/20", "step 12/20", "step 18/20", "step 20/20"),
                line.err()
                        .lines()
                        .filter(l -> l.matches("step \\d+/20 .*"))
                        .map(l -> l.substring(0, l.indexOf("  ")))
                        .toList());
    }

    /** A day of a run whose steps take a tenth of a second each. */
    @Test
    void a_day_has_no_more_than_a_few_lines_a_minute() {
        long second = TimeUnit.SECONDS.toNanos(1);
        long shown = 0;
        int lines = 0;
        for (long now = 0; now < 86_400 * second; now += second / 10) {
            if (now - shown >= LogCadence.growing(now, 3 * second)) {
                shown = now;
                lines++;
            }
        }
        assertTrue(lines > 1000 && lines < 1600, lines + " lines");
    }
}
