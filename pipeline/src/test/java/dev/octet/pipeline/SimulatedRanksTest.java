package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.reduction.RankSettings;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Ranks that one process plays because it was asked to, beside ranks that are threads; tiny GPT-2 on text. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SimulatedRanksTest {
    private static final Path TESTDATA =
            Path.of(System.getProperty("octet.testdata")).toAbsolutePath().normalize();
    private static final Path GPT2 = TESTDATA.resolve("models/tiny-lm/gpt2");
    private static final Job JOB = Job.defaults().withThreads(1);

    @TempDir
    Path folder;

    @BeforeEach
    void make() throws IOException {
        Files.writeString(folder.resolve("c.yaml"), """
            data: {train: '%s/text/train.jsonl', pack: true, sequence: 16}
            loss: {type: causal-lm}
            batch_size: 1
            gradient_accumulation: 4
            steps: 3
            optimizer: {type: adamw, lr: 1.0e-3}
            """.formatted(TESTDATA));
    }

    private Train.Request request(String run, String... settings) {
        return Train.Request.of(GPT2, folder.resolve("c.yaml"), folder.resolve(run))
                .withSettings(Arrays.asList(settings));
    }

    private static void onThreads(Train.Request request, int ranks) {
        RankThreads.run(ranks, Duration.ofSeconds(60), world -> Train.run(request, _ -> List.of(), JOB, world));
    }

    private Map<String, byte[]> weights(String run) throws IOException {
        Map<String, byte[]> files = new TreeMap<>();
        try (Stream<Path> all = Files.list(folder.resolve(run).resolve("checkpoints/step-3"))) {
            for (Path file : all.toList()) {
                files.put(file.getFileName().toString(), Files.readAllBytes(file));
            }
        }
        return files;
    }

    private void assertSameBytes(String expected, String got) throws IOException {
        Map<String, byte[]> first = weights(expected);
        Map<String, byte[]> second = weights(got);
        assertEquals(first.keySet(), second.keySet());
        first.forEach((name, bytes) -> assertArrayEquals(bytes, second.get(name), name));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "precision.mode=fp32",
                "precision.gradient_reduction=legacy",
                "precision.mode=msamp",
                "precision={mode: fp8, accumulation: hopper, gradient_reduction: min-scale}"
            })
    void one_process_leaves_the_bytes_of_as_many_ranks(String precision) throws IOException {
        onThreads(request("real", precision), 2);
        Train.run(request("played", precision).withSimulatedRanks(2), JOB);
        assertSameBytes("real", "played");
    }

    @Test
    void a_run_of_real_ranks_goes_on_in_one_process_and_then_without_being_told_again() throws IOException {
        onThreads(request("whole"), 4);
        onThreads(request("pieces").withSteps(1), 4);
        Path pieces = folder.resolve("pieces");
        Train.run(Train.Request.ofRun(pieces).withSimulatedRanks(4).withSteps(1), JOB);
        Train.run(Train.Request.ofRun(pieces), JOB);
        assertSameBytes("whole", "pieces");
    }

    @Test
    void the_run_keeps_the_number_of_ranks_and_the_command_that_started_it() throws IOException {
        Train.Request request = request("run", "steps=1").withSimulatedRanks(2);
        Train.run(request, JOB);
        String kept = Files.readString(folder.resolve("run/config.yaml"));
        assertTrue(kept.contains("\n# --simulate-ranks 2\n"), kept);
        assertTrue(kept.contains("\nprecision: {ranks: 2, gradient_reduction: f32}\n"), kept);
        assertTrue(request.commandLine().endsWith(" --set steps=1 --simulate-ranks 2"), request.commandLine());
    }

    private String note(String... settings) throws IOException {
        List<String> notes = Train.plan(request("planned", settings).withSimulatedRanks(4), JOB)
                .plan()
                .notes();
        return notes.stream().filter(n -> n.startsWith("simulates")).findFirst().orElse("");
    }

    @Test
    void the_plan_says_which_reduction_rounding_and_sums_are_simulated() throws IOException {
        assertEquals("simulates 4 ranks: gradients are averaged in F32", note());
        assertEquals(
                "simulates 4 ranks: gradients of matrices are averaged by legacy in E4M3, rounded and saturated after"
                        + " each addition as by NCCL; others in F32",
                note("precision.gradient_reduction=legacy"));
        String own = note("precision={mode: fp8, gradient_reduction: min-scale}");
        assertTrue(own.contains(" by min-scale in E4M3, "), own);
        assertTrue(own.contains(" as by NCCL, with auto_scale; "), own);
        assertTrue(own.endsWith("; FP8 products add up as the device has it (precision.accumulation: f32)"), own);
        String hopper = note("precision={mode: fp8, accumulation: hopper}");
        assertTrue(hopper.endsWith("; FP8 products add up as Hopper's units do, which a CPU emulates"), hopper);
    }

    private InvalidOptionException refused(Train.Request request) {
        return assertThrows(InvalidOptionException.class, () -> Train.plan(request, JOB));
    }

    @Test
    void another_number_in_the_configuration_is_refused_at_its_place() {
        InvalidOptionException other =
                refused(request("run", "precision.ranks=4").withSimulatedRanks(2));
        assertEquals("--simulate-ranks 2 asks for another number of ranks than the configuration's 4", other.what());
        assertEquals("--set precision.ranks=4, key precision.ranks", other.where());
        assertEquals("leave out one of the two", other.fix());
    }

    @Test
    void a_number_that_does_not_divide_the_micro_batches_is_refused_with_one_that_does() {
        InvalidOptionException uneven = refused(request("run").withSimulatedRanks(3));
        assertEquals("3 ranks cannot share 4 micro-batches a step evenly", uneven.what());
        assertEquals("--simulate-ranks 3, key precision.ranks", uneven.where());
        assertEquals("give gradient_accumulation: 6", uneven.fix());
    }

    @ParameterizedTest
    @ValueSource(ints = {0, RankSettings.MOST + 1})
    void a_number_of_ranks_that_no_run_has_is_refused_with_the_largest(int ranks) {
        InvalidOptionException many = refused(request("run").withSimulatedRanks(ranks));
        assertEquals(ranks + " ranks cannot be simulated", many.what());
        assertEquals("--simulate-ranks " + ranks, many.where());
        assertEquals("give a number from 1 to 1024", many.fix());
    }

    @Test
    void real_ranks_do_not_simulate_others() {
        Train.Request request = request("run").withSimulatedRanks(2);
        List<InvalidOptionException> refused =
                new ArrayList<>(RankThreads.run(2, Duration.ofSeconds(60), world -> refused(request, world)));
        assertEquals(
                "the run has 2 processes, and each is one rank",
                refused.getFirst().what());
        assertTrue(refused.getFirst().where().startsWith("--simulate-ranks 2; rank 0 of 2"), refused::toString);
        assertEquals(
                "leave --simulate-ranks out, or start one process without a launcher",
                refused.getFirst().fix());
    }

    private static InvalidOptionException refused(Train.Request request, Collectives world) {
        return assertThrows(InvalidOptionException.class, () -> Train.plan(request, JOB, world));
    }

    /** Share of codes that saturate at each of five steps in which every rank has one micro-batch. */
    private List<Double> saturated(int ranks, String reduction) throws IOException {
        String run = reduction + ranks;
        Train.run(
                request(run, "gradient_accumulation=" + ranks, "steps=5", "precision.gradient_reduction=" + reduction)
                        .withSimulatedRanks(ranks),
                JOB);
        List<Double> shares = new ArrayList<>();
        for (String line : Files.readAllLines(folder.resolve(run).resolve("metrics.jsonl"))) {
            JsonNode step = new ObjectMapper().readTree(line);
            if (step.has("loss")) {
                shares.add(step.get("reduction_saturated").asDouble());
            }
        }
        return shares;
    }

    @Test
    void legacy_saturates_more_the_more_ranks_there_are_and_min_scale_with_mu_next_to_nothing() throws IOException {
        double before = 0;
        for (int ranks : List.of(2, 8, 32)) {
            double first = saturated(ranks, "legacy").getFirst();
            assertTrue(first > 3 * before, first + " of " + ranks + " ranks, " + before + " of fewer");
            before = first;
        }
        assertTrue(before > 0.01, "a hundredth of all codes: " + before);
        double late = saturated(32, "min-scale").getLast();
        assertTrue(late < before / 100, late + " after mu was halved");
    }
}
