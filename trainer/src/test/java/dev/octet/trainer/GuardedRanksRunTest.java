package dev.octet.trainer;

import static dev.octet.trainer.RankRuns.assertSame;
import static dev.octet.trainer.RankRuns.run;
import static dev.octet.trainer.RankRuns.threads;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.hook.RunEnd;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.LongStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Guarded runs of ranks beside the run of one process that computes all micro-batches. Every eighth step has an outlier among the samples of one micro-batch, which demotes products and has
 * the run go back.
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GuardedRanksRunTest {
    private static final int STEPS = 40;
    private static final String DELAYED = "mode: fp8, recipe: delayed, amax_history_len: 2";
    private static final String SPIKES = "spike: {window: 8, snapshot_every: 5}";
    private static final String PRODUCTS = "every: 2, warm_up: 4, quiet: 6, amax_jump: {demote: 8}, " + SPIKES;

    private static final String ADAPTER =
            "adapter: {r: 2, lora_alpha: 4, target_modules: [first, second], lora_dropout: 0.2}";

    @TempDir
    Path folder;

    /** @param data ranks, or so many that one process plays */
    private static TrainingParts parts(
            int data, int accumulation, String distributed, String precision, String... lines) {
        String yaml = yaml(data, accumulation, distributed, precision, lines);
        return precision.startsWith("mode: fp8")
                ? SmallRun.planted(yaml, 1000, 50L)
                // without FP8 it takes more to move the loss
                : SmallRun.planted(yaml, 300, LongStream.range(48, 56).boxed().toArray(Long[]::new));
    }

    private static String yaml(int data, int accumulation, String distributed, String precision, String... lines) {
        List<String> all = new ArrayList<>(List.of(
                "data: {train: made, shuffle: false}",
                "steps: " + STEPS,
                "batch_size: " + 8 / accumulation, // a step has 8 of 64 samples
                "gradient_accumulation: " + accumulation,
                "checkpoint: {every: 4, keep: 2}",
                "distributed: {" + distributed + "}",
                "precision: {" + precision + (data == 1 ? "" : ", ranks: " + data)
                        + (data == 1 || precision.contains("reduction") ? "}" : ", gradient_reduction: f32}")));
        all.addAll(List.of(lines));
        return SmallRun.with(all.toArray(String[]::new));
    }

    private static List<JsonNode> decisions(Path run) throws IOException {
        List<JsonNode> lines = new ArrayList<>();
        for (String line : Files.readAllLines(run.resolve("guard.jsonl"))) {
            lines.add(new ObjectMapper().readTree(line));
        }
        return lines;
    }

    private static Set<String> kinds(Path run) throws IOException {
        Set<String> kinds = new TreeSet<>();
        decisions(run).forEach(d -> kinds.add(d.path("decision").asText()));
        return kinds;
    }

    /** What the journal and the metrics say of steps, and the last checkpoint. */
    private static void assertAlike(Path expected, Path got) throws IOException {
        assertEquals(Files.readString(expected.resolve("guard.jsonl")), Files.readString(got.resolve("guard.jsonl")));
        assertEquals(metrics(expected), metrics(got));
        assertSame(expected, got, STEPS);
    }

    private static List<String> metrics(Path run) throws IOException {
        List<String> lines = new ArrayList<>();
        for (String line : Files.readAllLines(run.resolve("metrics.jsonl"))) {
            JsonNode m = new ObjectMapper().readTree(line);
            lines.add(m.path("step") + " " + m.path("loss") + " " + m.path("grad_norm") + " " + m.path("epoch"));
        }
        return lines;
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "2 | 2 | zero: 0",
                "2 | 4 | zero: 1",
                "2 | 2 | zero: 2",
                "2 | 4 | zero: 2",
                "2 | 2 | zero: 3",
                "4 | 4 | zero: 3, bucket_size: 100",
                "1 | 2 | pipeline: 2",
                "2 | 4 | pipeline: 2, zero: 1"
            })
    void ranks_decide_on_products_as_one_process_that_has_all_micro_batches(
            int data, int accumulation, String distributed) throws IOException {
        Path whole = folder.resolve("whole");
        run(
                parts(data, accumulation, "", DELAYED, "guard: {" + PRODUCTS + "}"),
                whole,
                Collectives.alone(),
                RunOptions.defaults());
        assertTrue(
                kinds(whole).containsAll(Set.of("demoted", "promoted", "rolled_back")),
                kinds(whole).toString());
        Path ranks = folder.resolve("ranks");
        int stages = distributed.contains("pipeline") ? 2 : 1;
        threads(
                data * stages,
                parts(data, accumulation, distributed, DELAYED, "guard: {" + PRODUCTS + "}"),
                ranks,
                RunOptions.defaults());
        assertAlike(whole, ranks);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "2 | 2 | zero: 0 | mode: fp32 |",
                "2 | 2 | zero: 3 | mode: fp32 |",
                "2 | 4 | zero: 2 | mode: bf16 |",
                "2 | 4 | zero: 1 | mode: fp16, loss_scale: {type: torch, init_scale: 1.0e7, growth_interval: 3} |",
                "1 | 2 | pipeline: 2 | mode: fp32 |",
                "2 | 4 | pipeline: 2, zero: 1 | mode: bf16 |",
                "2 | 2 | zero: 3 | mode: bf16 | " + ADAPTER,
                "2 | 4 | pipeline: 2 | mode: bf16 | " + ADAPTER,
                "2 | 4 | zero: 3 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: te,"
                        + " store_param_remainders: true}}",
                "2 | 4 | pipeline: 2, zero: 1 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine:"
                        + " torchao, format: fp8}}",
                "2 | 2 | zero: 1 | mode: msamp, gradient_reduction: legacy |",
                "2 | 2 | zero: 3 | mode: qat, weights: {format: int4}, inputs: {format: int8} |"
            })
    void ranks_go_back_at_the_step_at_which_one_process_does(
            int data, int accumulation, String distributed, String precision, @Nullable String line)
            throws IOException {
        String guard = "guard: {" + SPIKES + "}";
        String[] lines = line == null ? new String[] {guard} : new String[] {guard, line};
        Path whole = folder.resolve("whole");
        run(parts(data, accumulation, "", precision, lines), whole, Collectives.alone(), RunOptions.defaults());
        assertEquals(Set.of("rolled_back"), kinds(whole));
        Path ranks = folder.resolve("ranks");
        int all = data * (distributed.contains("pipeline") ? 2 : 1);
        TrainingParts parts = parts(data, accumulation, distributed, precision, lines);
        threads(all, parts, ranks, RunOptions.defaults().withMaxSteps(11));
        threads(all, parts, ranks, RunOptions.defaults().resuming().withMaxSteps(12));
        threads(all, parts, ranks, RunOptions.defaults().resuming());
        assertAlike(whole, ranks);
    }

    /** Interrupted before, between and after rollbacks. */
    @Test
    void a_guarded_run_goes_on_with_other_shares_and_in_one_process() throws IOException {
        String guard = "guard: {" + PRODUCTS + "}";
        Path whole = folder.resolve("whole");
        run(parts(2, 2, "", DELAYED, guard), whole, Collectives.alone(), RunOptions.defaults());
        Path pieces = folder.resolve("pieces");
        RunOptions four = RunOptions.defaults().withMaxSteps(4);
        threads(2, parts(2, 2, "zero: 3", DELAYED, guard), pieces, four);
        threads(2, parts(2, 2, "zero: 1", DELAYED, guard), pieces, four.resuming());
        run(parts(2, 2, "", DELAYED, guard), pieces, Collectives.alone(), four.resuming());
        threads(4, parts(2, 2, "pipeline: 2, reshape: true", DELAYED, guard), pieces, four.resuming());
        threads(2, parts(2, 2, "zero: 2, reshape: true", DELAYED, guard), pieces, four.resuming());
        threads(
                2,
                parts(2, 2, "zero: 3, reshape: true", DELAYED, guard),
                pieces,
                RunOptions.defaults().resuming());
        assertAlike(whole, pieces);
    }

    /** Ranks that share layers measure their parts, and add up results in another order: what they do about the first outlier is the same, numbers are near. */
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "1 | 2 | tensor: 2 | mode: fp8, recipe: delayed, amax_history_len: 2 |",
                "2 | 4 | tensor: 2, zero: 1 | mode: fp8, recipe: delayed, amax_history_len: 2 |",
                "1 | 2 | tensor: 2 | mode: fp32 |",
                "2 | 4 | tensor: 2, zero: 3 | mode: fp32 |",
                "1 | 4 | tensor: 2, pipeline: 2 | mode: bf16 |",
                "1 | 4 | tensor: 2, pipeline: 2 | mode: fp32 | " + ADAPTER
            })
    void ranks_that_share_layers_act_on_the_outlier_like_one_process(
            int data, int accumulation, String distributed, String precision, @Nullable String line)
            throws IOException {
        String guards = "guard: {" + (precision.startsWith("mode: fp8") ? PRODUCTS : SPIKES) + "}";
        String[] guard = line == null ? new String[] {guards} : new String[] {guards, line};
        Path whole = folder.resolve("whole");
        run(parts(data, accumulation, "", precision, guard), whole, Collectives.alone(), RunOptions.defaults());
        Path ranks = folder.resolve("ranks");
        TrainingParts cut = parts(data, accumulation, distributed, precision, guard);
        int all = 2 * data * (distributed.contains("pipeline") ? 2 : 1);
        threads(all, cut, ranks, RunOptions.defaults());
        List<JsonNode> expected = first(whole);
        List<JsonNode> got = first(ranks);
        assertEquals(expected.size(), got.size(), got.toString());
        for (int i = 0; i < expected.size(); i++) {
            for (String key :
                    List.of("step", "decision", "product", "from", "to", "trigger", "spike", "skipped_from")) {
                assertEquals(expected.get(i).path(key), got.get(i).path(key), key);
            }
            double value = expected.get(i).path("value").asDouble();
            assertEquals(value, got.get(i).path("value").asDouble(), 0.05 * value, "" + got.get(i));
        }
        Path pieces = folder.resolve("pieces");
        threads(all, cut, pieces, RunOptions.defaults().withMaxSteps(6));
        threads(all, cut, pieces, RunOptions.defaults().resuming().withMaxSteps(14));
        threads(all, cut, pieces, RunOptions.defaults().resuming());
        assertAlike(ranks, pieces);
    }

    /** The first step's decisions. */
    private static List<JsonNode> first(Path run) throws IOException {
        List<JsonNode> all = decisions(run);
        assertFalse(all.isEmpty(), "decisions");
        return all.stream()
                .filter(d -> d.path("step").equals(all.getFirst().path("step")))
                .toList();
    }

    @Test
    void ranks_repeat_the_decisions_of_another_run_without_measuring() throws IOException {
        Path whole = folder.resolve("whole");
        run(parts(2, 4, "", DELAYED, "guard: {" + PRODUCTS + "}"), whole, Collectives.alone(), RunOptions.defaults());
        String replay = "guard: {replay: '" + whole.resolve("guard.jsonl").toAbsolutePath() + "'}";
        Path again = folder.resolve("again");
        run(parts(2, 4, "", DELAYED, replay), again, Collectives.alone(), RunOptions.defaults());
        Path ranks = folder.resolve("ranks");
        threads(4, parts(2, 4, "pipeline: 2, zero: 1", DELAYED, replay), ranks, RunOptions.defaults());
        assertAlike(again, ranks);
        assertEquals(Files.readString(whole.resolve("guard.jsonl")), Files.readString(ranks.resolve("guard.jsonl")));
    }

    @Test
    void all_ranks_end_when_the_rollbacks_are_used_up() throws IOException {
        Long[] all = LongStream.range(40, 64).boxed().toArray(Long[]::new);
        String spike = "guard: {spike: {window: 4, snapshot_every: 3, retries: 2, skip: 1}}";
        // each batch of the second half of an epoch is bad
        TrainingParts parts = SmallRun.planted(yaml(2, 2, "zero: 3", "mode: fp32", spike), 1.0e4f, all);
        List<RunEnd> ends = threads(2, parts, folder, RunOptions.defaults());
        ends.forEach(end -> assertEquals(RunEnd.Reason.DIVERGED, end.reason()));
        assertEquals(ends.getFirst().message(), ends.getLast().message());
        assertEquals("gave_up", decisions(folder).getLast().path("decision").asText());
    }

    @Test
    void measuring_on_ranks_changes_no_number_of_a_run() throws IOException {
        String never = "guard: {every: 1, warm_up: 1000000, spike: {loss: 1.0e9, grad_norm: 1.0e9}}";
        Path guarded = folder.resolve("guarded");
        Path bare = folder.resolve("bare");
        threads(2, parts(2, 4, "zero: 3", DELAYED, never), guarded, RunOptions.defaults());
        threads(2, parts(2, 4, "zero: 3", DELAYED, "seed: 0"), bare, RunOptions.defaults());
        assertEquals(metrics(bare), metrics(guarded));
        assertEquals("", Files.readString(guarded.resolve("guard.jsonl")));
        assertFalse(Files.exists(bare.resolve("guard.jsonl")));
    }
}
