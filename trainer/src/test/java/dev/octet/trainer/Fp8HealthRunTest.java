package dev.octet.trainer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.hook.Fp8Report;
import dev.octet.trainer.hook.Fp8Tensor;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.TrainingHook;
import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.op.fp8.QuantizeFp8;
import dev.octet.trainer.op.fp8.QuantizeFp8Delayed;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a run in FP8 measures of its casts. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class Fp8HealthRunTest {
    private static final String DELAYED = "precision: {mode: fp8, amax_history_len: 4}";

    @TempDir
    Path folder;

    private static RunEnd run(TrainingParts parts, Path folder, RunOptions options) throws IOException {
        try (Device device = CpuDevice.of(2);
                Trainer trainer = Trainer.of(parts, device)) {
            return trainer.run(folder, options);
        }
    }

    private static WatchedFp8 watched(TrainingParts parts, Path folder, long steps) throws IOException {
        WatchedFp8 watch = new WatchedFp8();
        run(parts, folder, RunOptions.defaults().withMaxSteps(steps).withHooks(List.of(watch)));
        return watch;
    }

    private static float[] weight(TrainingParts parts, String name) {
        return requireNonNull(parts.model().graph().graph().initializers().get(name))
                .tensor()
                .orElseThrow()
                .toFloats();
    }

    private static TrainingParts withWeight(String yaml, String name, int element, float x) {
        TrainingParts parts = SmallRun.parts(yaml);
        requireNonNull(parts.model().graph().graph().initializers().get(name))
                .tensor()
                .orElseThrow()
                .bytes()
                .setAtIndex(Tensor.F32_LE, element, x);
        return parts;
    }

    @Test
    void every_operand_of_every_layer_is_counted_over_all_micro_batches() throws IOException {
        TrainingParts parts = SmallRun.parts(SmallRun.with("gradient_accumulation: 3", DELAYED));
        WatchedFp8 watch = watched(parts, folder, 1);
        Map<String, Long> elements = new HashMap<>();
        watch.reports().getFirst().tensors().forEach(t -> elements.put(t.slot(), t.elements()));
        assertEquals(
                Map.of(
                        "fp8.first.input", 3L * 8 * SmallRun.IN,
                        "fp8.w1.weight", (long) SmallRun.IN * SmallRun.HIDDEN,
                        "fp8.first.grad_output", 3L * 8 * SmallRun.HIDDEN,
                        "fp8.second.input", 3L * 8 * SmallRun.HIDDEN,
                        "fp8.w2.weight", (long) SmallRun.HIDDEN * SmallRun.CLASSES,
                        "fp8.second.grad_output", 3L * 8 * SmallRun.CLASSES),
                elements);
        assertEquals(
                LinearTensor.GRAD_OUTPUT,
                watch.tensor(1, "fp8.first.grad_output").tensor());
        assertEquals("first", watch.tensor(1, "fp8.w1.weight").layer());
    }

    @Test
    void a_value_planted_above_the_scale_is_clipped_once_and_has_room_in_the_next_step() throws IOException {
        WatchedFp8 watch = watched(withWeight(SmallRun.with(DELAYED), "w1", 5, 1000), folder, 2);
        Fp8Tensor first = watch.tensor(1, "fp8.w1.weight");
        assertEquals(1, first.clipped());
        assertEquals(1000, first.amax());
        assertEquals(1, first.scale(), "as delayed scaling begins");
        Fp8Tensor second = watch.tensor(2, "fp8.w1.weight");
        assertEquals(0, second.clipped());
        assertEquals(1000 / 448f, second.scale(), 1e-6);
    }

    @Test
    void values_planted_below_the_scale_underflow() throws IOException {
        TrainingParts parts = withWeight(SmallRun.with("precision: {mode: fp8, recipe: current}"), "w1", 5, 1e6f);
        int small = 0;
        for (float w : weight(parts, "w1")) {
            // E4M3's smallest number is 2^-9, its largest 448
            small += w != 0 && Math.abs(w) * (448 / 1e6f) <= 0x1p-10f ? 1 : 0;
        }
        assertTrue(small > 120, "nearly all are");
        Fp8Tensor t = watched(parts, folder, 1).tensor(1, "fp8.w1.weight");
        assertEquals(small, t.underflowed());
        assertEquals(0, t.clipped());
        assertEquals(0, t.historyLength());
    }

    @Test
    void rows_underflow_with_their_own_scales_only() throws IOException {
        // w2 is [out, in] and its rows are scaled each for itself in fprop, its columns in dgrad
        TrainingParts parts = withWeight(SmallRun.with("precision: {mode: fp8, recipe: rowwise}"), "w2", 0, 1e6f);
        Fp8Tensor t = watched(parts, folder, 1).tensor(1, "fp8.w2.weight");
        assertEquals(2L * SmallRun.HIDDEN * SmallRun.CLASSES, t.elements(), "cast in two ways");
        assertEquals(SmallRun.HIDDEN - 1 + SmallRun.CLASSES - 1, t.underflowed(), "the row and the column of it");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{mode: fp8, recipe: current}",
                "{mode: fp8, recipe: block}",
                "{mode: fp8, recipe: mxfp8}",
                "{mode: fp8, recipe: tensorwise}",
                "{mode: fp8, recipe: rowwise, base: fp16}",
                "{mode: fp8, recipe: rowwise_with_gw_hp}",
                "{mode: fp8, recipe: deployed}",
                "{mode: fp8, fake_quantize: true, high_precision: [dgrad]}"
            })
    void tensors_that_fit_lose_nothing(String precision) throws IOException {
        WatchedFp8 watch = watched(SmallRun.parts(SmallRun.with("precision: " + precision)), folder, 3);
        for (Fp8Tensor t : watch.reports().getFirst().tensors()) {
            assertEquals(0, t.clipped(), t.toString());
            assertEquals(0, t.underflowed() * 20 / t.elements(), t.toString()); // a small gradient may
        }
        assertTrue(watch.reports().getFirst().tensors().size() >= 4);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{mode: fp8, amax_history_len: 4}",
                "{mode: fp8, recipe: current, base: fp32}",
                "{mode: fp8, recipe: block}",
                "{mode: fp8, recipe: rowwise}"
            })
    void a_run_that_is_measured_has_the_same_bytes_as_one_that_is_not(String precision) throws IOException {
        for (long every : new long[] {0, 1}) {
            String yaml = SmallRun.with(
                    "gradient_accumulation: 2", "precision: " + precision, "fp8_health: {every: " + every + "}");
            run(SmallRun.parts(yaml), folder.resolve("every" + every), RunOptions.defaults());
        }
        for (String file : List.of("parameters.safetensors", "state.safetensors")) {
            assertArrayEquals(bytes("every0", file), bytes("every1", file), file);
        }
        assertTrue(Files.exists(folder.resolve("every1/fp8_health.jsonl")));
        assertFalse(Files.exists(folder.resolve("every0/fp8_health.jsonl")));
    }

    private byte[] bytes(String run, String file) throws IOException {
        return Files.readAllBytes(
                new CheckpointFolder(folder.resolve(run)).path(40).resolve(file));
    }

    @Test
    void the_reference_device_counts_the_same() throws IOException {
        WatchedFp8 cpu = watched(SmallRun.parts(SmallRun.with(DELAYED)), folder.resolve("cpu"), 1);
        WatchedFp8 reference = new WatchedFp8();
        try (Device device = new ReferenceDevice();
                Trainer trainer = Trainer.of(SmallRun.parts(SmallRun.with(DELAYED)), device)) {
            trainer.run(
                    folder.resolve("reference"),
                    RunOptions.defaults().withMaxSteps(1).withHooks(List.of(reference)));
        }
        assertEquals(
                cpu.reports().getFirst().tensors().stream().map(Fp8Tensor::slot).toList(),
                reference.reports().getFirst().tensors().stream()
                        .map(Fp8Tensor::slot)
                        .toList());
        assertEquals(cpu.tensor(1, "fp8.w1.weight"), reference.tensor(1, "fp8.w1.weight"));
    }

    private List<JsonNode> lines(String run, String file) throws IOException {
        List<JsonNode> lines = new ArrayList<>();
        for (String line : Files.readAllLines(folder.resolve(run).resolve(file))) {
            lines.add(new ObjectMapper().readTree(line));
        }
        return lines;
    }

    @Test
    void a_resumed_run_has_the_lines_and_ages_of_one_in_one_go() throws IOException {
        TrainingParts parts = SmallRun.parts(SmallRun.with(DELAYED, "fp8_health: {every: 3}"));
        run(parts, folder.resolve("whole"), RunOptions.defaults());
        Path pieces = folder.resolve("pieces");
        run(parts, pieces, RunOptions.defaults().withMaxSteps(13));
        // as if the process had been killed later than its last checkpoint
        Files.copy(
                folder.resolve("whole/fp8_health.jsonl"),
                pieces.resolve("fp8_health.jsonl"),
                StandardCopyOption.REPLACE_EXISTING);
        run(parts, pieces, RunOptions.defaults().resuming().withMaxSteps(13));
        run(parts, pieces, RunOptions.defaults().resuming());
        assertEquals(lines("whole", "fp8_health.jsonl"), lines("pieces", "fp8_health.jsonl"));
        List<Long> steps = lines("whole", "fp8_health.jsonl").stream()
                .map(l -> l.get("step").asLong())
                .distinct()
                .toList();
        assertEquals(List.of(3L, 6L, 9L, 12L, 15L, 18L, 21L, 24L, 27L, 30L, 33L, 36L, 39L, 40L), steps);
    }

    @Test
    void ages_of_scales_are_the_steps_since_their_last_update() throws IOException {
        Map<String, Long> changed = new HashMap<>();
        List<String> wrong = new ArrayList<>();
        List<Long> ages = new ArrayList<>();
        WatchedFp8 watch = new WatchedFp8();
        TrainingHook check = new TrainingHook() {
            @Override
            public boolean watchesScales() {
                return true;
            }

            @Override
            public void scaleUpdated(long step, String slot, float before, float after) {
                changed.put(slot, step);
            }

            @Override
            public void fp8Measured(Fp8Report report) {
                for (Fp8Tensor t : report.tensors()) {
                    ages.add(t.scaleAge());
                    if (t.scaleAge() != report.step() - changed.getOrDefault(t.slot(), 0L)) {
                        wrong.add(t.toString());
                    }
                }
            }
        };
        run(
                SmallRun.parts(SmallRun.with(DELAYED)),
                folder,
                RunOptions.defaults().withHooks(List.of(check, watch)));
        assertEquals(List.of(), wrong);
        assertTrue(ages.stream().anyMatch(a -> a > 1), "some scale stays");
        // a scale that stayed is the same number
        for (int step = 2; step <= 40; step++) {
            for (Fp8Tensor t : watch.reports().get(step - 1).tensors()) {
                boolean same = t.scale() == watch.tensor(step - 1, t.slot()).scale();
                boolean changedBefore = watch.tensor(step - 1, t.slot()).scaleAge() == 0;
                assertEquals(changedBefore, !same, t + " at step " + step);
            }
        }
    }

    @Test
    void metrics_have_the_shares_of_measured_steps() throws IOException {
        run(
                SmallRun.parts(SmallRun.with(DELAYED, "fp8_health: {every: 20}")),
                folder.resolve("run"),
                RunOptions.defaults());
        List<Long> with = lines("run", "metrics.jsonl").stream()
                .filter(l -> l.has("fp8_clipped") && l.has("fp8_underflowed") && l.has("fp8_oldest_scale"))
                .map(l -> l.get("step").asLong())
                .toList();
        assertEquals(List.of(20L, 40L), with);
    }

    private Map<String, Tensor> state(long step, Arena arena) throws IOException {
        Map<String, Tensor> copies = new HashMap<>();
        try (CheckpointFile file = new CheckpointFolder(folder).open(step)) {
            file.state().state().forEach((name, tensor) -> {
                Tensor copy = Tensor.allocate(arena, tensor.spec());
                copy.bytes().copyFrom(tensor.bytes());
                copies.put(name, copy);
            });
        }
        return copies;
    }

    @Test
    void the_histories_of_a_skipped_step_have_moved_without_what_is_not_finite() throws IOException {
        TrainingParts parts = withWeight(SmallRun.with(DELAYED), "w2", 5, Float.NaN);
        requireNonNull(parts.model().graph().graph().initializers().get("w1"))
                .tensor()
                .orElseThrow()
                .bytes()
                .setAtIndex(Tensor.F32_LE, 0, Float.POSITIVE_INFINITY);
        RunEnd end = run(parts, folder, RunOptions.defaults().withMaxSteps(1));
        assertEquals(1, end.totals().skipped());
        try (Arena arena = Arena.ofConfined()) {
            Map<String, Tensor> state = state(1, arena);
            float[] input =
                    requireNonNull(state.get("fp8.first.input.amax_history")).toFloats();
            assertTrue(input[input.length - 1] > 0, "moved");
            float[] w2 = requireNonNull(state.get("fp8.w2.weight.amax_history")).toFloats();
            assertTrue(w2[w2.length - 1] > 0 && Float.isFinite(w2[w2.length - 1]), "the other elements'");
            assertTrue(Float.isFinite(
                    requireNonNull(state.get("fp8.w2.weight.quant_scale")).toFloats()[0]));
            float[] w1 = requireNonNull(state.get("fp8.w1.weight.amax_history")).toFloats();
            assertEquals(Float.POSITIVE_INFINITY, w1[w1.length - 1], "remembered");
            assertEquals(
                    1, requireNonNull(state.get("fp8.w1.weight.quant_scale")).toFloats()[0], "and not used");
        }
    }

    /** What is read after a step must not lie where the step wrote. */
    @ParameterizedTest
    @ValueSource(strings = {"delayed", "current", "block", "rowwise", "rowwise_with_gw_hp", "qat"})
    void what_a_cast_read_is_still_there_after_it(String recipe) {
        TrainingParts parts = SmallRun.parts(SmallRun.with("precision: {mode: fp8, recipe: " + recipe + "}"));
        Program program = Autodiff.program(
                parts.model().at(Map.of("x", Shape.of(8, SmallRun.IN))),
                new ProgramOptions(
                        List.of("logits"),
                        null,
                        Set.of("logits"),
                        SmallRun.PARAMETERS,
                        SmallRun.PARAMETERS,
                        parts.config().precision().policy()));
        MemoryPlan plan = MemoryPlan.of(program);
        int looked = 0;
        for (Step step : program.steps()) {
            boolean casts = step.op() instanceof QuantizeFp8 || step.op() instanceof QuantizeFp8Delayed;
            if (casts || (step.op() instanceof Fp8Linear && step.backward())) {
                Value source = requireNonNull(
                        casts ? step.inputs().getFirst() : step.upstream().getFirst());
                for (Value result : step.results()) {
                    assertFalse(result != null && overlap(plan, source, result), step.toString());
                }
                looked++;
            }
        }
        assertTrue(looked >= 5, "casts of two layers");
    }

    private static boolean overlap(MemoryPlan plan, Value a, Value b) {
        if (!plan.isPlaced(a) || !plan.isPlaced(b)) {
            return plan.root(a).equals(plan.root(b));
        }
        return plan.offset(a) < plan.offset(b) + b.type().byteSize()
                && plan.offset(b) < plan.offset(a) + a.type().byteSize();
    }

    @Test
    void looking_for_what_is_not_finite_moves_no_history_again() throws IOException {
        run(
                withWeight(SmallRun.with(DELAYED), "w2", 5, Float.NaN),
                folder,
                RunOptions.defaults().withMaxSteps(1));
        try (Arena arena = Arena.ofConfined()) {
            float[] input = requireNonNull(state(1, arena).get("fp8.first.input.amax_history"))
                    .toFloats();
            assertArrayEquals(new float[] {0, 0, 0, input[3]}, input, "one step, one amax");
        }
    }
}
