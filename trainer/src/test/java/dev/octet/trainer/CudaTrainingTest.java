package dev.octet.trainer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.CudaDevice;
import dev.octet.trainer.device.cuda.HostGpu;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.hook.RunEnd;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Whole runs on a GPU's kernels against the same runs on the processor. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CudaTrainingTest {
    private static final int STEPS = 50;

    /**
     * Losses of the two devices differ by the order of sums, which in FP32 is 1e-6 of a step; in narrow types a sum near the border between two
     * numbers is rounded to either, and the runs drift apart by some of these steps. The loss falls from 1.1 to about 0.1.
     */
    private static double tolerance(String precision) {
        return precision.contains("mode: fp32") ? 1e-5 : 2e-2;
    }

    @TempDir
    Path folder;

    private static TrainingParts parts(String precision) {
        return SmallRun.parts(SmallRun.with("steps: " + STEPS, "precision: " + precision));
    }

    private static RunEnd run(TrainingParts parts, Path folder, RunOptions options, Supplier<Device> devices)
            throws IOException {
        try (Device device = devices.get();
                Trainer trainer = Trainer.of(parts, device)) {
            return trainer.run(folder, options);
        }
    }

    private static List<Double> losses(Path run) throws IOException {
        List<Double> losses = new ArrayList<>();
        for (String line : Files.readAllLines(run.resolve("metrics.jsonl"))) {
            JsonNode node = new ObjectMapper().readTree(line);
            if (node.has("loss")) {
                losses.add(node.get("loss").asDouble());
            }
        }
        return losses;
    }

    private static void assertFollows(List<Double> expected, List<Double> actual, double tolerance) {
        assertEquals(STEPS, actual.size());
        for (int i = 0; i < STEPS; i++) {
            assertEquals(expected.get(i), actual.get(i), tolerance, "loss of step " + (i + 1));
        }
        assertTrue(actual.getLast() < 0.35, actual.toString());
    }

    private void checkCurve(String precision, Supplier<Device> devices) throws IOException {
        TrainingParts parts = parts(precision);
        run(parts, folder.resolve("cpu"), RunOptions.defaults(), () -> CpuDevice.of(1));
        run(parts, folder.resolve("cuda"), RunOptions.defaults(), devices);
        assertFollows(losses(folder.resolve("cpu")), losses(folder.resolve("cuda")), tolerance(precision));
    }

    static Stream<String> allModes() {
        return Stream.concat(
                TrainerTest.precisionModes().stream(),
                Stream.of(
                        "{mode: msamp, opt_level: O1}",
                        "{mode: msamp, opt_level: O2}",
                        "{mode: msamp, opt_level: O3}",
                        "{mode: msamp, use_te: true}",
                        "{mode: qat, weights: {format: int8, granularity: channel}, inputs: {format: int8}}",
                        "{mode: qat, inputs: {method: dynamic, variant: zero_point, format: int8}}",
                        "{mode: qat, weights: {format: int4, granularity: group, group_size: 8}, inputs: {format:"
                                + " int8}}"));
    }

    @ParameterizedTest
    @MethodSource("allModes")
    void the_kernels_follow_the_processors_losses(String precision) throws IOException {
        checkCurve(precision, TestGpus::hostDevice);
    }

    @Tag("gpu")
    @ParameterizedTest
    @MethodSource("allModes")
    void the_gpu_follows_the_processors_losses(String precision) throws IOException {
        checkCurve(precision, TestGpus::realDevice);
    }

    private void checkResume(String precision, Supplier<Device> devices) throws IOException {
        TrainingParts parts = parts(precision);
        Path whole = folder.resolve("cpu");
        run(parts, whole, RunOptions.defaults(), () -> CpuDevice.of(1));
        Path there = folder.resolve("there and back");
        run(parts, there, RunOptions.defaults().withMaxSteps(17), devices);
        run(parts, there, RunOptions.defaults().resuming().withMaxSteps(16), () -> CpuDevice.of(1));
        RunEnd end = run(parts, there, RunOptions.defaults().resuming(), devices);
        assertEquals(RunEnd.Reason.COMPLETED, end.reason());
        assertFollows(losses(whole), losses(there), tolerance(precision));
    }

    /** Samples that count how often they are read. */
    private static final class Counted extends ForwardedSamples {
        private final AtomicInteger batches;

        Counted(Samples samples, AtomicInteger batches) {
            super(samples);
            this.batches = batches;
        }

        @Override
        public Map<String, Tensor> gather(long[] rows, Arena arena) throws IOException {
            batches.incrementAndGet();
            return super.gather(rows, arena);
        }
    }

    /** Numbers of batches that were read after each of a run's five steps. */
    private static List<Integer> batchesRead(Device device) throws IOException {
        TrainingParts of = SmallRun.parts(SmallRun.with("steps: 5", "precision: {mode: bf16}"));
        AtomicInteger batches = new AtomicInteger();
        TrainingParts parts = new TrainingParts(
                of.config(),
                of.model(),
                Optional.empty(),
                new Counted(of.train(), batches),
                Optional.empty(),
                Map.of());
        List<Integer> read = new ArrayList<>();
        try (device;
                Trainer trainer = Trainer.of(parts, device)) {
            int before = batches.get();
            for (long step = 1; step <= 5; step++) {
                trainer.step(step);
                read.add(batches.get() - before);
            }
        }
        return read;
    }

    @Test
    void the_next_steps_batches_are_drawn_while_a_gpu_computes() throws IOException {
        List<Integer> onProcessor = batchesRead(CpuDevice.of(1));
        int each = onProcessor.getFirst();
        assertEquals(List.of(each, 2 * each, 3 * each, 4 * each, 5 * each), onProcessor);
        assertEquals(List.of(2 * each, 3 * each, 4 * each, 5 * each, 5 * each), batchesRead(TestGpus.hostDevice()));
    }

    static List<String> someModes() {
        return List.of(
                "{mode: fp32}",
                "{mode: fp16, loss_scale: {type: torch, growth_interval: 5}}",
                "{mode: fp8, recipe: delayed, fp8_format: HYBRID, amax_history_len: 4, amax_compute_algo: max}");
    }

    @ParameterizedTest
    @MethodSource("someModes")
    void a_run_goes_from_the_kernels_to_the_processor_and_back(String precision) throws IOException {
        checkResume(precision, TestGpus::hostDevice);
    }

    @Tag("gpu")
    @ParameterizedTest
    @MethodSource("someModes")
    void a_run_goes_from_the_gpu_to_the_processor_and_back(String precision) throws IOException {
        checkResume(precision, TestGpus::realDevice);
    }

    private void checkSame(String precision, Supplier<Device> first, Supplier<Device> second) throws IOException {
        checkSame(parts(precision), first, second);
    }

    private void checkSame(TrainingParts parts, Supplier<Device> first, Supplier<Device> second) throws IOException {
        run(parts, folder.resolve("a"), RunOptions.defaults(), first);
        run(parts, folder.resolve("b"), RunOptions.defaults(), second);
        for (String file : List.of("parameters.safetensors", "state.safetensors")) {
            Path a = new CheckpointFolder(folder.resolve("a")).path(STEPS).resolve(file);
            Path b = new CheckpointFolder(folder.resolve("b")).path(STEPS).resolve(file);
            assertArrayEquals(Files.readAllBytes(a), Files.readAllBytes(b), file);
        }
    }

    /** Of several micro-batches the first overwrites gradients: also behind steps that left them infinite, and where shapes change. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "{mode: bf16}",
                "{mode: fp16, loss_scale: {type: torch, init_scale: 1073741824, growth_interval: 5}}",
                "{mode: fp8, recipe: delayed, fp8_format: HYBRID, amax_history_len: 4, amax_compute_algo: max}"
            })
    void what_steps_do_together_leaves_the_bytes_of_what_they_do_one_by_one(String precision) throws IOException {
        TrainingParts parts = SmallRun.parts(SmallRun.with(
                "batch_size: 6", "gradient_accumulation: 3", "steps: " + STEPS, "precision: " + precision));
        checkSame(parts, TestGpus::hostDevice, TestGpus::stepByStepDevice);
    }

    @ParameterizedTest
    @MethodSource("someModes")
    void the_order_in_which_blocks_and_threads_run_changes_no_byte(String precision) throws IOException {
        TestGpus.hostDevice().close(); // skips where there is none
        checkSame(precision, TestGpus::hostDevice, () -> new CudaDevice(new HostGpu(HostGpu.Order.BACKWARD)));
    }

    @Tag("gpu")
    @ParameterizedTest
    @MethodSource("someModes")
    void a_second_run_on_the_gpu_gives_the_same_bytes(String precision) throws IOException {
        checkSame(precision, TestGpus::realDevice, TestGpus::realDevice);
    }
}
