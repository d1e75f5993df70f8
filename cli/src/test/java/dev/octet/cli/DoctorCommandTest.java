package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.ModelFile;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code octet doctor} as typed, on runs of a tiny Llama that learns a pattern and meets a batch of noise. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class DoctorCommandTest {
    private static final Path MODEL =
            Path.of(System.getProperty("octet.testdata")).resolve("models/tiny-hf/llama");

    private static final int STEPS = 48;
    private static final int BATCH = 4;
    private static final int TOKENS = 16;
    private static final int NOISE = 30;

    @TempDir
    static Path runs;

    @TempDir
    Path folder;

    @BeforeAll
    static void train() throws IOException {
        data(runs.resolve("spike.bin"), NOISE);
        good(train(runs, "fp8", "{mode: fp8, recipe: delayed}"));
        good(train(runs, "bf16", "{mode: bf16}"));
    }

    /** Samples of a pattern that is learnt in a few steps; one step is random tokens. */
    private static void data(Path file, int noise) throws IOException {
        SplittableRandom random = new SplittableRandom(1);
        ByteBuffer tokens = ByteBuffer.allocate(2 * STEPS * BATCH * TOKENS).order(ByteOrder.LITTLE_ENDIAN);
        for (int row = 0; row < STEPS * BATCH; row++) {
            int step = row / BATCH + 1;
            int start = random.nextInt(8);
            for (int i = 0; i < TOKENS; i++) {
                boolean isNoise = step == noise;
                tokens.putShort((short) (isNoise ? random.nextInt(1, 90) : (start + 3 * i) % 8 + 1));
            }
        }
        Files.write(file, tokens.array());
    }

    private static CommandLine train(Path at, String name, String precision, String... more) throws IOException {
        Path config = at.resolve(name + ".yaml");
        Files.writeString(config, """
            data: {train: spike.bin, sequence: %d, shuffle: false}
            loss: {type: causal-lm}
            batch_size: %d
            steps: %d
            optimizer: {lr: 5.0e-3}
            checkpoint: {every: 8, keep: 10}
            precision: %s
            """.formatted(TOKENS, BATCH, STEPS, precision));
        List<String> words = new ArrayList<>(List.of("train", MODEL.toString(), "--config", config.toString(), "-o"));
        words.add(at.resolve(name).toString());
        words.addAll(Arrays.asList(more));
        return CommandLine.run(words.toArray(String[]::new));
    }

    private static CommandLine good(CommandLine line) {
        assertEquals(ExitCode.OK, line.code(), line.err());
        return line;
    }

    private static String run(String name) {
        return runs.resolve(name).toString();
    }

    private String at(String name) {
        return folder.resolve(name).toString();
    }

    private static JsonNode found(CommandLine line) throws IOException {
        assertEquals(ExitCode.CHECK_FAILED, line.code(), line.err() + line.out());
        return new ObjectMapper().readTree(line.out());
    }

    private static void assertRefused(CommandLine line, ExitCode code, String what, String fix) {
        assertEquals(code, line.code(), line.err() + line.out());
        assertTrue(line.err().contains(what), line.err());
        assertTrue(line.err().contains("  where: "), line.err());
        assertTrue(line.err().lines().anyMatch(l -> l.startsWith("  fix:   ") && l.contains(fix)), line.err());
    }

    // class (a)

    @Test
    void a_spike_that_the_baseline_has_too_is_not_fp8s_fault() throws IOException {
        CommandLine line =
                CommandLine.run("doctor", run("fp8"), "--baseline", run("bf16"), "--json", "--output", at("o"));
        JsonNode answer = found(line);
        assertEquals("octet/doctor/1", answer.path("schema").asText());
        assertEquals("SHARED_SPIKE", answer.path("symptom").asText());
        assertFalse(answer.path("healthy").asBoolean(true));
        assertTrue(answer.path("verdict").asText().startsWith("not FP8's fault: the spike at step"), line.out());
        assertEquals(0, answer.path("replays_run").asInt());
        String advice = answer.path("advice").toString();
        assertTrue(
                advice.contains("clip_grad_norm") && advice.contains("stableadamw") && advice.contains("averaging"),
                advice);
        assertEquals(2, answer.path("curves").size());
        assertEquals(
                STEPS,
                answer.path("curves").path(1).path("course").path("points").size());
    }

    /** Without a baseline, the doctor continues the checkpoint before the spike in BF16. */
    @Test
    void without_a_baseline_a_replay_of_the_base_type_shows_the_same() throws IOException {
        JsonNode answer = found(CommandLine.run("doctor", run("fp8"), "--json", "--output", at("o")));
        assertEquals("SHARED_SPIKE", answer.path("symptom").asText(), answer.toString());
        assertEquals(1, answer.path("replays_run").asInt());
        assertEquals(
                "bf16 from step 25", answer.path("curves").path(1).path("name").asText());
        JsonNode again = found(CommandLine.run("doctor", run("fp8"), "--json", "--output", at("o")));
        assertEquals(0, again.path("replays_run").asInt(), "kept from the first call");
        assertEquals(answer.path("verdict"), again.path("verdict"));
    }

    // class (b)

    /** Planted: one layer's scales leave room for 2^18, so that what it casts underflows. */
    private static final String MARGIN =
            "{mode: fp8, recipe: delayed, layers: [{match: layers.1.mlp.up_proj, recipe: delayed, margin: 18}]}";

    private void planted(String... more) throws IOException {
        data(folder.resolve("spike.bin"), 0);
        good(train(folder, "planted", MARGIN, more));
    }

    @Test
    void a_planted_layer_is_found_and_the_cure_is_proved_and_trains() throws IOException {
        planted();
        JsonNode answer = found(CommandLine.run("doctor", at("planted"), "--json"));
        JsonNode replays = answer.path("replays");
        String guilty = replays.path("guilty").toString();
        assertTrue(
                guilty.contains("layers.1.mlp.up_proj fprop"),
                answer.path("verdict").asText());
        assertFalse(guilty.contains("layers.0") || guilty.contains("lm_head"), guilty);
        double before = replays.path("trials").path(3).path("excess").asDouble();
        double after = replays.path("proof").path("excess").asDouble();
        assertTrue(after < 1.5 && before > 3 * after, before + " before the cure, " + after + " with it");
        assertEquals(45, replays.path("cells").size(), "15 Linears, three products each");
        Path doctor = folder.resolve("planted/doctor");
        String te = Files.readString(doctor.resolve("te-debug.yaml"));
        assertTrue(
                te.contains("layers\\.1\\.mlp\\.up_proj|")
                        && te.contains("layers\\.1\\.layernorm_mlp\\.fc1)$'")
                        && te.contains("PerTensorScaling:"),
                te);
        assertTrue(Files.readString(doctor.resolve("torchao_filter.py")).contains("module_filter_fn"));
        String precision = Files.readString(doctor.resolve("precision.yaml"));
        assertTrue(precision.contains("current: ["), precision);
        String flow = "{"
                + String.join(", ", precision.lines().skip(1).map(String::strip).toList()) + "}";
        good(train(folder, "cured", flow, "--steps", "12"));
        CommandLine again = CommandLine.run("doctor", at("planted"));
        assertTrue(again.out().contains(" 0 replays") && again.out().contains("(kept)"), again.out());
        assertTrue(again.out().contains("cure, proved by a replay"), again.out());
    }

    /** What is known is said, and the same call with more goes on from there. */
    @Test
    void a_budget_that_is_too_small_says_what_is_known_and_goes_on_later() throws IOException {
        planted("--steps", "16", "--set", "fp8_health.every=4");
        JsonNode none = found(CommandLine.run("doctor", at("planted"), "--json", "--budget", "0"));
        assertFalse(none.path("complete").asBoolean(true));
        assertTrue(
                none.path("verdict").asText().contains("budget"),
                none.path("verdict").asText());
        JsonNode some = found(CommandLine.run("doctor", at("planted"), "--json", "--budget", "7"));
        assertFalse(some.path("complete").asBoolean(true));
        // the run's own measurements say as much before any replay
        String fits = none.path("bad_fits").path(0).path("tensor").asText();
        assertTrue(fits.contains("layers.1.mlp.up_proj"), none.toString());
        assertTrue(
                none.path("verdict").asText().contains(" % of " + fits + " underflowed"),
                none.path("verdict").asText());
        assertEquals(7, some.path("replays_run").asInt());
        assertTrue(
                some.path("replays").path("suspects").size() > 0,
                some.path("verdict").asText());
        assertTrue(
                some.path("advice").toString().contains("larger --budget goes on from here"),
                some.path("advice").toString());
        JsonNode rest = found(CommandLine.run("doctor", at("planted"), "--json"));
        assertTrue(rest.path("complete").asBoolean(), rest.path("verdict").asText());
        int all = rest.path("replays").path("trials").size();
        assertTrue(rest.path("replays_run").asInt() < all, rest.path("replays_run") + " of " + all);
    }

    /** The first steps of a model, without any run. */
    @Test
    void a_model_is_examined_before_its_first_step() throws IOException {
        planted("--steps", "1");
        CommandLine line = CommandLine.run(
                "doctor", MODEL.toString(), "--config", at("planted.yaml"), "--data", at("spike.bin"), "--json");
        JsonNode answer = found(line);
        assertTrue(answer.path("replays").path("guilty").toString().contains("layers.1.mlp.up_proj"), line.out());
        assertTrue(answer.path("cure").path("precision").asText().startsWith("precision:"), line.out());
        assertEquals(0, answer.path("written").size());
        Files.writeString(
                folder.resolve("sound.yaml"),
                Files.readString(folder.resolve("planted.yaml")).replace(MARGIN, "{mode: fp8}"));
        CommandLine sound = CommandLine.run("doctor", MODEL.toString(), "--config", at("sound.yaml"));
        assertEquals(ExitCode.OK, sound.code(), sound.out() + sound.err());
        assertTrue(sound.out().contains("healthy"), sound.out());
    }

    @Test
    void the_page_has_the_verdict_and_the_curves_thinned_to_what_a_chart_shows() throws IOException {
        CommandLine line = CommandLine.run(
                "doctor", run("fp8"), "--baseline", run("bf16"), "--report", at("page.html"), "--output", at("o"));
        assertEquals(ExitCode.CHECK_FAILED, line.code(), line.err());
        assertTrue(line.out().contains("report: " + at("page.html")), line.out());
        String page = Files.readString(folder.resolve("page.html"));
        int start = page.indexOf("<script id=\"data\" type=\"application/json\">");
        JsonNode data = new ObjectMapper()
                .readTree(page.substring(page.indexOf('>', start) + 1, page.indexOf("</script>", start)));
        assertEquals("spike in the baseline too", data.path("symptom").asText());
        assertTrue(data.path("result").path("verdict").asText().startsWith("not FP8's fault"), data.toString());
        assertFalse(data.path("result").has("curves"));
        assertEquals(STEPS, data.path("curves").path(1).path("loss").path("min").size());
        assertEquals("octet doctor", data.path("run").path("command").asText().substring(0, 12));
    }

    // class (c)

    @Test
    void a_checkpoint_exported_with_the_inverse_scale_is_found() throws IOException {
        good(CommandLine.run("export", run("fp8"), "-o", at("m"), "--target", "compressed-tensors"));
        CommandLine sound = CommandLine.run(
                "doctor", run("fp8"), "--baseline", run("bf16"), "--exported", at("m"), "--json", "--output", at("o"));
        JsonNode passed = found(sound).path("exported");
        assertTrue(passed.path("passed").asBoolean(), sound.out());
        inverted(folder.resolve("m/model.safetensors"));
        CommandLine line = CommandLine.run(
                "doctor", run("fp8"), "--baseline", run("bf16"), "--exported", at("m"), "--json", "--output", at("o"));
        JsonNode answer = found(line);
        assertEquals("DOWNSTREAM", answer.path("symptom").asText());
        String verdict = answer.path("verdict").asText();
        assertTrue(
                verdict.startsWith("the export is wrong, not the training: scales ") && verdict.contains("reciprocals"),
                verdict);
        assertTrue(answer.path("advice").toString().contains("store the reciprocal"), line.out());
        assertTrue(answer.path("exported").path("proof").path("worst").asDouble() > 0.2, line.out());
    }

    /** Every scale of a weight as its reciprocal. */
    private static void inverted(Path file) throws IOException {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        Path spoilt = file.resolveSibling("spoilt.safetensors");
        try (ModelFile model = ModelFile.open(file);
                Arena arena = Arena.ofConfined()) {
            tensors.putAll(model.model().tensors());
            tensors.replaceAll(
                    (name, tensor) -> name.endsWith("weight_scale") ? inverted(arena, name, tensor) : tensor);
            ModelFile.save(Model.of(tensors, model.model().metadata()), spoilt);
        }
        Files.move(spoilt, file, StandardCopyOption.REPLACE_EXISTING);
    }

    private static Tensor inverted(Arena arena, String name, Tensor tensor) {
        float[] scales = tensor.toFloats();
        for (int i = 0; i < scales.length; i++) {
            scales[i] = 1 / scales[i];
        }
        return Tensor.ofFloats(arena, name, tensor.shape(), scales);
    }

    @Test
    void an_exported_average_is_held_against_the_average() throws IOException {
        planted("--steps", "12", "--set", "averaging={ema: {decay: 0.5}}", "--set", "precision={mode: fp8}");
        good(CommandLine.run(
                "export", at("planted"), "-o", at("m.safetensors"), "--target", "safetensors", "--weights", "ema"));
        JsonNode sound = new ObjectMapper()
                .readTree(CommandLine.run(
                                "doctor",
                                at("planted"),
                                "--exported",
                                at("m.safetensors"),
                                "--weights",
                                "ema",
                                "--json")
                        .out());
        assertTrue(sound.path("exported").path("passed").asBoolean(), sound.toString());
        assertRefused(
                CommandLine.run("doctor", at("planted"), "--weights", "ema"),
                ExitCode.USAGE,
                "--weights says what was exported",
                "add --exported");
    }

    @Test
    void bad_scores_of_all_tasks_ask_for_what_was_exported() throws IOException {
        Files.writeString(folder.resolve("t.json"), """
            {"a": {"baseline": 0.6, "run": 0.2}, "b": {"baseline": 0.5, "run": 0.1}, "c": {"baseline": 0.7, "run": 0.3}}\
            """);
        CommandLine line = CommandLine.run(
                "doctor", run("fp8"), "--baseline", run("bf16"), "--tasks", at("t.json"), "--output", at("o"));
        assertEquals(ExitCode.CHECK_FAILED, line.code(), line.err());
        assertTrue(line.out().contains("the export or the evaluation, not the training"), line.out());
        assertTrue(line.out().contains("--exported"), line.out());
    }

    // bad input

    @Test
    void a_run_without_fp8_is_refused() {
        assertRefused(
                CommandLine.run("doctor", run("bf16")),
                ExitCode.INPUT,
                "nothing is computed in FP8: precision.mode is bf16",
                "--baseline");
    }

    @Test
    void a_run_of_a_few_steps_is_refused() throws IOException {
        Files.copy(runs.resolve("spike.bin"), folder.resolve("spike.bin"));
        good(train(folder, "short", "{mode: fp8}", "--steps", "5"));
        assertRefused(
                CommandLine.run("doctor", at("short")),
                ExitCode.INPUT,
                "the run has 5 steps",
                "train on with octet train --resume");
    }

    @Test
    void a_folder_that_is_no_run_is_refused() {
        assertRefused(
                CommandLine.run("doctor", MODEL.toString()),
                ExitCode.USAGE,
                "the folder is not a run: it has no run.json",
                "give the folder that `octet train -o` wrote");
    }

    @ParameterizedTest
    @ValueSource(strings = {"x", "10d", "-3", "1.5"})
    void a_budget_that_is_neither_a_number_nor_a_time_is_refused(String budget) {
        assertRefused(
                CommandLine.run("doctor", run("fp8"), "--budget", budget),
                ExitCode.USAGE,
                "--budget needs",
                "for example 20, or 10m");
    }

    @Test
    void a_baseline_of_another_run_is_refused() throws IOException {
        assertRefused(
                CommandLine.run("doctor", run("fp8"), "--baseline", run("fp8")),
                ExitCode.INPUT,
                "the baseline computes in FP8 itself",
                "{mode: bf16}");
        Files.copy(runs.resolve("spike.bin"), folder.resolve("spike.bin"));
        good(train(folder, "other", "{mode: bf16}", "--set", "seed=2", "--set", "optimizer.lr=1e-3"));
        assertRefused(
                CommandLine.run("doctor", run("fp8"), "--baseline", at("other")),
                ExitCode.INPUT,
                "the baseline is another run: optimizer.lr is 0.001 there and 0.005 here; seed is 2 there and 1 here",
                "with another precision alone");
    }

    @Test
    void another_model_is_refused() {
        assertRefused(
                CommandLine.run(
                        "doctor",
                        run("fp8"),
                        "--model",
                        MODEL.resolveSibling("qwen2").toString()),
                ExitCode.INPUT,
                "the model has SHA-256",
                "--model MODEL");
    }

    @ParameterizedTest
    @CsvSource({"--step, 7, the run has no checkpoint of step 7, 'checkpoints are of steps [8, 16, 24, 32, 40, 48]'"})
    void a_step_without_a_checkpoint_is_refused(String option, String value, String what, String fix) {
        assertRefused(CommandLine.run("doctor", run("fp8"), option, value), ExitCode.INPUT, what, fix);
    }

    @Test
    void options_of_a_model_and_of_a_run_exclude_each_other() {
        assertRefused(
                CommandLine.run("doctor", run("fp8"), "--data", run("spike.bin")),
                ExitCode.USAGE,
                "--data is for a MODEL with --config",
                "a run knows its data");
        assertRefused(
                CommandLine.run("doctor", MODEL.toString(), "--config", run("fp8.yaml"), "--step", "8"),
                ExitCode.USAGE,
                "--step is for a RUN",
                "--config");
    }

    @Test
    void data_that_has_changed_since_is_refused() throws IOException {
        planted("--steps", "12");
        data(folder.resolve("spike.bin"), 3);
        assertRefused(
                CommandLine.run("doctor", at("planted")),
                ExitCode.INPUT,
                "the training data has changed since the run",
                "replays need the batches that the run saw");
    }

    @Test
    void a_checkpoint_of_another_model_is_refused() throws IOException {
        planted("--steps", "8");
        Path other = folder.resolve("other");
        Files.writeString(
                folder.resolve("other.yaml"),
                Files.readString(folder.resolve("planted.yaml")).replace(MARGIN, "{mode: fp8}"));
        good(CommandLine.run(
                "train",
                MODEL.resolveSibling("mistral").toString(),
                "--config",
                at("other.yaml"),
                "-o",
                other.toString(),
                "--steps",
                "8"));
        good(CommandLine.run("train", "--resume", at("planted"), "--steps", "4"));
        Path mine = folder.resolve("planted/checkpoints/step-8");
        try (Stream<Path> files = Files.list(other.resolve("checkpoints/step-8"))) {
            for (Path file : files.toList()) {
                Files.copy(file, mine.resolve(file.getFileName()), StandardCopyOption.REPLACE_EXISTING);
            }
        }
        CommandLine line = CommandLine.run("doctor", at("planted"), "--step", "8");
        assertEquals(ExitCode.INPUT, line.code(), line.err() + line.out());
        assertTrue(line.err().contains("checkpoint"), line.err());
    }

    /** Planted: a norm that is not a number. */
    @Test
    void a_run_that_is_not_finite_from_its_first_step_in_any_type_is_refused() throws IOException {
        Path broken = folder.resolve("broken");
        Files.createDirectories(broken);
        Files.copy(MODEL.resolve("config.json"), broken.resolve("config.json"));
        try (ModelFile model = ModelFile.open(MODEL.resolve("model.safetensors"));
                Arena arena = Arena.ofConfined()) {
            Map<String, Tensor> tensors = new LinkedHashMap<>(model.model().tensors());
            tensors.computeIfPresent("model.norm.weight", (name, tensor) -> {
                float[] weights = tensor.toFloats();
                Arrays.fill(weights, Float.NaN);
                return Tensor.ofFloats(arena, name, tensor.shape(), weights);
            });
            ModelFile.save(Model.of(tensors, model.model().metadata()), broken.resolve("model.safetensors"));
        }
        data(folder.resolve("spike.bin"), 0);
        good(train(folder, "sound", "{mode: fp8}", "--steps", "1"));
        CommandLine trained = CommandLine.run(
                "train", broken.toString(), "--config", at("sound.yaml"), "-o", at("nan"), "--steps", "12");
        assertEquals(ExitCode.OK, trained.code(), trained.err());
        assertRefused(
                CommandLine.run("doctor", at("nan")),
                ExitCode.INPUT,
                "the loss is not finite from the first step on, in bf16 neither",
                "it is not FP8");
    }
}
