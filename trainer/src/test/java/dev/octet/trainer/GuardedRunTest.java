package dev.octet.trainer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.TrainingHook;
import dev.octet.trainer.replay.Excerpt;
import dev.octet.trainer.step.TrainingSession;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.LongStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Runs that demote products and go back. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GuardedRunTest {
    private static final String DELAYED = "precision: {mode: fp8, recipe: delayed, amax_history_len: 2}";
    private static final String IN_ORDER = "data: {train: made, shuffle: false}";

    @TempDir
    Path folder;

    private static RunEnd run(TrainingParts parts, Path folder, RunOptions options) throws IOException {
        try (Device device = CpuDevice.of(1);
                Trainer trainer = Trainer.of(parts, device)) {
            return trainer.run(folder, options);
        }
    }

    private static List<JsonNode> decisions(Path folder) throws IOException {
        List<JsonNode> lines = new ArrayList<>();
        for (String line : Files.readAllLines(folder.resolve("guard.jsonl"))) {
            lines.add(new ObjectMapper().readTree(line));
        }
        return lines;
    }

    private static List<String> kinds(Path folder) throws IOException {
        return decisions(folder).stream()
                .map(d -> d.get("step").asLong() + " " + d.get("decision").asText() + " "
                        + d.path("product").asText() + " " + d.path("from").asText() + " "
                        + d.path("to").asText() + " " + d.path("trigger").asText())
                .toList();
    }

    /** Decides on products, goes back twice, promotes and relapses within 40 steps: every eighth step has an outlier among its samples. */
    private static final String EVENTFUL = SmallRun.with(
            DELAYED,
            IN_ORDER,
            "checkpoint: {every: 4, keep: 2}",
            "guard: {every: 2, warm_up: 4, quiet: 6, amax_jump: {demote: 8}, spike: {window: 8, snapshot_every: 5}}");

    private static TrainingParts eventful(String yaml) {
        return SmallRun.planted(yaml, 1000, 50L);
    }

    /** Everything of a checkpoint, tensors as their bytes. */
    private static Map<String, String> contents(Path folder, long step) throws IOException {
        Map<String, String> all = new TreeMap<>();
        try (CheckpointFile file = new CheckpointFolder(folder).open(step)) {
            file.state().numbers().forEach((key, value) -> all.put("number " + key, value));
            file.state().parameters().forEach((name, t) -> all.put("weight " + name, bytes(t)));
            file.state().state().forEach((name, t) -> all.put("state " + name, bytes(t)));
            all.put("micro-batches", String.valueOf(file.state().microBatches()));
        }
        return all;
    }

    private static String bytes(Tensor t) {
        return Arrays.toString(t.bytes().toArray(ValueLayout.JAVA_BYTE));
    }

    /** What does not depend on the clock. */
    private static List<String> metrics(Path folder) throws IOException {
        List<String> lines = new ArrayList<>();
        for (String line : Files.readAllLines(folder.resolve("metrics.jsonl"))) {
            JsonNode m = new ObjectMapper().readTree(line);
            lines.add(m.path("step") + " " + m.path("loss") + " " + m.path("grad_norm") + " " + m.path("epoch"));
        }
        return lines;
    }

    private Path whole() throws IOException {
        Path whole = folder.resolve("whole");
        assertEquals(
                RunEnd.Reason.COMPLETED,
                run(eventful(EVENTFUL), whole, RunOptions.defaults()).reason());
        return whole;
    }

    @Test
    void an_outlier_demotes_the_products_that_read_it_and_a_relapse_doubles_the_quiet_steps() throws IOException {
        List<String> kinds = kinds(whole());
        assertTrue(kinds.contains("7 demoted first.fprop delayed current amax_jump"), kinds.toString());
        assertTrue(kinds.contains("7 demoted first.wgrad delayed current amax_jump"), kinds.toString());
        List<JsonNode> ofFprop = decisions(folder.resolve("whole")).stream()
                .filter(d -> d.path("product").asText().equals("first.fprop"))
                .toList();
        assertEquals(6, ofFprop.get(0).get("quiet").asLong());
        assertEquals("promoted", ofFprop.get(1).get("decision").asText());
        assertTrue(ofFprop.get(1).get("step").asLong() >= 7 + 6);
        assertEquals("demoted", ofFprop.get(2).get("decision").asText());
        assertEquals(12, ofFprop.get(2).get("quiet").asLong());
    }

    @Test
    void a_rollback_keeps_what_was_demoted_and_reads_other_batches() throws IOException {
        Path whole = whole();
        List<JsonNode> decisions = decisions(whole);
        JsonNode back = decisions.stream()
                .filter(d -> d.path("decision").asText().equals("rolled_back"))
                .findFirst()
                .orElseThrow();
        assertEquals(10, back.get("step").asLong());
        assertEquals(15, back.get("spike").asLong(), "the second step that reads sample 50");
        assertEquals(14, back.get("skipped_from").asLong());
        assertTrue(decisions.stream()
                .anyMatch(d -> d.path("step").asLong() == 10 && d.path("seen").asLong() == 15));
        List<String> metrics = metrics(whole);
        assertEquals(40, metrics.size(), "each step once");
        assertTrue(metrics.get(12).endsWith(" 1.625"), metrics.get(12));
        assertTrue(metrics.get(13).endsWith(" 2.0"), "two batches of eight are left out: " + metrics.get(13));
        assertEquals("44", contents(whole, 40).get("micro-batches"), "two rollbacks have left out four");
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 3, 7})
    void a_run_interrupted_every_few_steps_is_the_same_run(int every) throws IOException {
        Path whole = whole();
        Path parts = folder.resolve("parts");
        RunEnd end = run(eventful(EVENTFUL), parts, RunOptions.defaults().withMaxSteps(every));
        int sessions = 1;
        while (end.reason() == RunEnd.Reason.INTERRUPTED && sessions < 100) {
            end = run(
                    eventful(EVENTFUL),
                    parts,
                    RunOptions.defaults().withMaxSteps(every).resuming());
            sessions++;
        }
        assertEquals(RunEnd.Reason.COMPLETED, end.reason());
        assertEquals(Files.readString(whole.resolve("guard.jsonl")), Files.readString(parts.resolve("guard.jsonl")));
        assertEquals(metrics(whole), metrics(parts));
        assertEquals(contents(whole, 40), contents(parts, 40));
    }

    @Test
    void a_run_killed_behind_its_last_checkpoint_repeats_its_decisions() throws IOException {
        Path whole = whole();
        Path killed = folder.resolve("killed");
        TrainingHook kill = new TrainingHook() {
            @Override
            public void beforeStep(long step) {
                if (step == 31) {
                    throw new IllegalStateException("killed");
                }
            }
        };
        assertThrows(
                IllegalStateException.class,
                () -> run(eventful(EVENTFUL), killed, RunOptions.defaults().withHooks(List.of(kill))));
        assertEquals(List.of(24L, 28L), new CheckpointFolder(killed).steps());
        run(eventful(EVENTFUL), killed, RunOptions.defaults().resuming());
        assertEquals(Files.readString(whole.resolve("guard.jsonl")), Files.readString(killed.resolve("guard.jsonl")));
        assertEquals(contents(whole, 40), contents(killed, 40));
    }

    @Test
    void the_decisions_of_a_run_can_be_repeated_without_measuring() throws IOException {
        Path whole = whole();
        Path record = whole.resolve("guard.jsonl");
        String yaml = EVENTFUL.replaceAll("guard: .*", "guard: {replay: '" + record.toAbsolutePath() + "'}");
        Path again = folder.resolve("again");
        run(eventful(yaml), again, RunOptions.defaults());
        assertEquals(Files.readString(record), Files.readString(again.resolve("guard.jsonl")));
        Map<String, String> expected = contents(whole, 40);
        Map<String, String> actual = contents(again, 40);
        for (String name : List.of("weight w1", "weight w2", "weight b1", "weight b2", "micro-batches")) {
            assertEquals(expected.get(name), actual.get(name), name);
        }
        assertEquals(metrics(whole), metrics(again));
        // the same, interrupted: what is done is not done again
        Path parts = folder.resolve("parts");
        run(eventful(yaml), parts, RunOptions.defaults().withMaxSteps(26));
        run(eventful(yaml), parts, RunOptions.defaults().resuming());
        assertEquals(actual, contents(parts, 40));
    }

    @Test
    void decisions_of_another_model_are_refused() throws IOException {
        Path record = folder.resolve("record.jsonl");
        Files.writeString(record, """
            {"step":7,"decision":"demoted","product":"x.fprop","node":"x:fprop","from":"delayed","to":"current",\
            "trigger":"clipped","seen":7,"value":1,"limit":0.5,"quiet":6}
            """);
        String yaml = EVENTFUL.replaceAll("guard: .*", "guard: {replay: '" + record.toAbsolutePath() + "'}");
        InvalidDataException e = assertThrows(
                InvalidDataException.class, () -> run(eventful(yaml), folder.resolve("r"), RunOptions.defaults()));
        assertTrue(e.what().contains("'x:fprop'"), e.what());
        assertTrue(e.where().endsWith("record.jsonl, line 1"), e.where());
    }

    @Test
    void measuring_changes_no_number_of_a_run() throws IOException {
        String never = "guard: {every: 1, warm_up: 1000000, spike: {loss: 1.0e9, grad_norm: 1.0e9}}";
        Path guarded = folder.resolve("guarded");
        Path bare = folder.resolve("bare");
        run(eventful(SmallRun.with(DELAYED, IN_ORDER, never)), guarded, RunOptions.defaults());
        run(eventful(SmallRun.with(DELAYED, IN_ORDER)), bare, RunOptions.defaults());
        assertEquals(metrics(bare), metrics(guarded));
        assertEquals(contents(bare, 40).get("weight w1"), contents(guarded, 40).get("weight w1"));
        assertEquals("", Files.readString(guarded.resolve("guard.jsonl")));
        assertFalse(Files.exists(bare.resolve("guard.jsonl")));
    }

    @Test
    void a_spike_in_every_batch_ends_the_run_after_the_allowed_rollbacks() throws IOException {
        String yaml = SmallRun.with(IN_ORDER, "guard: {spike: {window: 4, snapshot_every: 3, retries: 2, skip: 1}}");
        Long[] all = LongStream.range(40, 64).boxed().toArray(Long[]::new);
        RunEnd end = run(SmallRun.planted(yaml, 1.0e4f, all), folder, RunOptions.defaults());
        assertEquals(RunEnd.Reason.DIVERGED, end.reason());
        assertTrue(
                end.message()
                        .matches("the loss \\d+ at step \\d+ is above its band, .*, also after 2 rollbacks to step 3;"
                                + " .*"),
                end.message());
        assertEquals(
                List.of("3 6", "3 6", "5 5"),
                decisions(folder).stream()
                        .map(d -> d.path("step") + " " + d.path("spike"))
                        .toList());
        assertEquals(List.of(3L), new CheckpointFolder(folder).steps(), "where the run is whole");
        // one more rollback is allowed, which leaves out the last of the bad batches
        String more = yaml.replace("retries: 2", "retries: 3");
        run(
                SmallRun.planted(more, 1.0e4f, all),
                folder,
                RunOptions.defaults().withMaxSteps(6).resuming());
        assertEquals("rolled_back", decisions(folder).get(2).path("decision").asText());
        assertTrue(
                metrics(folder).stream()
                                .mapToDouble(m -> Double.parseDouble(m.split(" ", -1)[1]))
                                .max()
                                .orElse(9)
                        < 3,
                metrics(folder).toString());
    }

    @Test
    void a_replay_computes_and_reads_what_the_guarded_run_did() throws IOException {
        Path whole = whole();
        long last = new CheckpointFolder(whole).steps().getFirst();
        List<String> metrics = metrics(whole);
        try (Device device = CpuDevice.of(1);
                Trainer trainer = Trainer.of(eventful(EVENTFUL), device);
                CheckpointFile file = new CheckpointFolder(whole).open(last);
                Arena arena = Arena.ofConfined()) {
            Excerpt excerpt = trainer.excerpt(file.state(), 1, arena);
            assertTrue(excerpt.state().keySet().stream().noneMatch(n -> n.startsWith("guard.")));
            try (TrainingSession session = new TrainingSession(excerpt.setup(), device)) {
                session.restore(excerpt.parameters(), excerpt.state(), excerpt.scale());
                double loss = session.step(
                                excerpt.batches().getFirst(), excerpt.rates().getFirst(), null, false)
                        .loss();
                String replayed = (last + 1) + " " + loss;
                assertTrue(metrics.stream().anyMatch(m -> (m + " ").startsWith(replayed + " ")), replayed + metrics);
            }
        }
    }

    @Test
    void a_run_resumes_with_the_guard_it_was_started_with() throws IOException {
        run(eventful(EVENTFUL), folder, RunOptions.defaults().withMaxSteps(2));
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> run(
                        eventful(EVENTFUL.replace("quiet: 6", "quiet: 8")),
                        folder,
                        RunOptions.defaults().resuming()));
        assertTrue(e.what().contains("guard.quiet was 6 and is 8"), e.what());
    }

    @Test
    void a_promoted_product_has_a_sound_scale_in_its_first_step() throws IOException {
        Path whole = whole();
        JsonNode promoted = decisions(whole).stream()
                .filter(d -> d.path("decision").asText().equals("promoted"))
                .findFirst()
                .orElseThrow();
        assertEquals(24, promoted.get("step").asLong());
        float seed = (float) promoted.at("/seeds/fp8.first.input").asDouble();
        assertTrue(seed > 1 && seed < 5, "the amax of samples without an outlier, not the one from step 7: " + seed);
        Path until = folder.resolve("until");
        run(eventful(EVENTFUL), until, RunOptions.defaults().withMaxSteps(24));
        try (CheckpointFile file = new CheckpointFolder(until).openNewest()) {
            Map<String, Tensor> state = file.state().state();
            assertArrayEquals(
                    new float[] {448 / seed},
                    requireNonNull(state.get("fp8.first.input.quant_scale")).toFloats());
            assertArrayEquals(
                    new float[] {0, seed},
                    requireNonNull(state.get("fp8.first.input.amax_history")).toFloats());
        }
    }

    /** Loss of the last epoch of a run with a hidden unit of 2^17 whose outgoing weights are 0, so that only FP8 minds it. */
    private double lastLosses(String name, String... lines) throws IOException {
        List<String> all = new ArrayList<>(List.of(lines));
        all.add("freeze: [w2]");
        all.add("steps: 120");
        TrainingParts parts = SmallRun.parts(SmallRun.with(all.toArray(String[]::new)));
        Map<String, Initializer> weights = parts.model().graph().graph().initializers();
        requireNonNull(weights.get("b1")).tensor().orElseThrow().bytes().setAtIndex(Tensor.F32_LE, 3, 0x1p17f);
        for (int i = 0; i < SmallRun.CLASSES; i++) {
            long at = (long) i * SmallRun.HIDDEN + 3;
            requireNonNull(weights.get("w2")).tensor().orElseThrow().bytes().setAtIndex(Tensor.F32_LE, at, 0);
        }
        run(parts, folder.resolve(name), RunOptions.defaults());
        return metrics(folder.resolve(name)).stream()
                .skip(112)
                .mapToDouble(m -> Double.parseDouble(m.split(" ", -1)[1]))
                .average()
                .orElseThrow();
    }

    @Test
    void with_an_outlier_in_a_hidden_unit_a_guarded_run_ends_where_the_narrow_type_does() throws IOException {
        double narrow = lastLosses("bf16", "precision: {mode: bf16}");
        double bare = lastLosses("bare", "precision: {mode: fp8, recipe: delayed}");
        double guarded = lastLosses(
                "guarded", "precision: {mode: fp8, recipe: delayed}", "guard: {every: 2, quiet: 50, warm_up: 0}");
        // this model loses 4 % without a guard, the tiny GPT-2 and Llama of bench/run-guard more than half
        assertTrue(bare > 1.02 * narrow, bare + " and " + narrow);
        // half a percent as asked, and what the order of sums moves in a loss this small
        assertEquals(narrow, guarded, 0.005 * narrow + 0.002);
        Set<String> high = new TreeSet<>();
        decisions(folder.resolve("guarded")).stream()
                .filter(d -> d.path("to").asText().equals("high_precision"))
                .forEach(d -> high.add(d.path("product").asText()));
        assertEquals(Set.of("second.fprop"), high);
    }
}
