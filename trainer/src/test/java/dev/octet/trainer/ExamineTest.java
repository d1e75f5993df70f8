package dev.octet.trainer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.ProductOperand;
import dev.octet.trainer.checkpoint.TrainingState;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.precision.OperandChange;
import dev.octet.trainer.replay.Culprit;
import dev.octet.trainer.replay.Culprit.Extent;
import dev.octet.trainer.replay.Culprit.Remedy;
import dev.octet.trainer.replay.Diagnosis;
import dev.octet.trainer.replay.Evidence;
import dev.octet.trainer.replay.Examination;
import dev.octet.trainer.replay.ExaminationOptions;
import dev.octet.trainer.replay.Excerpt;
import dev.octet.trainer.replay.ReplayLog;
import dev.octet.trainer.replay.Verdict;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Faults planted in small runs, each found and cured; and healthy runs, of which nothing is said. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ExamineTest {
    private static final int BLOCKS = 3;

    @TempDir
    Path folder;

    private static StackRun run(String precision, String... lines) {
        return StackRun.of(BLOCKS)
                .with("precision: {mode: fp8, " + precision + "}")
                .with(lines);
    }

    /** The state of a trainer after some steps, with F32 states damaged. */
    private static TrainingState after(Trainer trainer, int steps, BiConsumer<String, float[]> damage)
            throws IOException {
        for (int i = 1; i <= steps; i++) {
            trainer.step(i);
        }
        Arena arena = Arena.ofAuto();
        Map<String, Tensor> state = new TreeMap<>();
        trainer.session().state(arena).forEach((name, tensor) -> {
            float[] x = tensor.dtype() == DType.F32 ? tensor.toFloats() : new float[0];
            damage.accept(name, x);
            state.put(name, tensor.dtype() == DType.F32 ? Tensor.ofFloats(arena, name, tensor.shape(), x) : tensor);
        });
        return new TrainingState(
                steps, steps, Map.of(), ScaleText.of(trainer.session().scale()), trainer.parameters(arena), state);
    }

    private static Diagnosis examined(StackRun run, UnaryOperator<Device> plant, ExaminationOptions options)
            throws IOException {
        try (Device device = CpuDevice.of(2);
                Trainer trainer = Trainer.of(run.parts(), plant.apply(device))) {
            return trainer.examine(null, options);
        }
    }

    private static Diagnosis examined(StackRun run) throws IOException {
        return examined(run, d -> d, ExaminationOptions.defaults());
    }

    private static Diagnosis examinedAfter(
            StackRun run, int steps, UnaryOperator<Device> plant, BiConsumer<String, float[]> damage)
            throws IOException {
        try (Device device = CpuDevice.of(2);
                Trainer trainer = Trainer.of(run.parts(), plant.apply(device))) {
            return trainer.examine(after(trainer, steps, damage), ExaminationOptions.defaults());
        }
    }

    /** The cure as {@code layer operand change}. */
    private static Set<String> cure(Diagnosis d) {
        return d.cure().entrySet().stream()
                .flatMap(e -> e.getValue().entrySet().stream()
                        .map(c -> e.getKey() + " " + c.getKey() + " " + name(c.getValue())))
                .collect(Collectors.toSet());
    }

    private static String name(OperandChange change) {
        return change.getClass().getSimpleName().toLowerCase(java.util.Locale.ROOT);
    }

    private static void assertProved(Diagnosis d) {
        assertTrue(d.complete());
        assertTrue(d.proof().isPresent(), d.sentence());
        assertTrue(d.proof().orElseThrow().deviation().excess() < 1.2, d.sentence());
        for (Culprit c : d.culprits()) {
            assertEquals(Extent.ALONE, c.extent());
        }
    }

    private static void assertFoundInTime(Diagnosis d) {
        double most = 2 * Math.log(d.layers()) / Math.log(2) + 9;
        assertTrue(d.toFind() <= most, d.toFind() + " replays for " + d.layers() + " layers");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"current", "delayed", "tensorwise", "rowwise", "rowwise_with_gw_hp", "block", "mxfp8", "qat"})
    void of_a_healthy_run_nothing_is_said(String recipe) throws IOException {
        Diagnosis d = examined(run("recipe: " + recipe));
        assertEquals(Verdict.HEALTHY, d.verdict(), d.sentence());
        assertEquals(List.of(), d.culprits());
        assertEquals(Map.of(), d.cure());
        assertTrue(d.replays() <= 7);
        assertTrue(d.complete());
    }

    @Test
    void a_dgrad_that_is_wrong_by_two_percent_is_found_and_no_scale_cures_it() throws IOException {
        Diagnosis d = examinedAfter(
                run("recipe: delayed"),
                3,
                device -> PlantedDevice.of(device, PlantedDevice.wrongDgrad("blocks.1.down", 1.02f)),
                (name, x) -> {});
        assertEquals(Verdict.PRODUCT, d.verdict(), d.sentence());
        assertEquals(
                Set.of("blocks.1.down dgrad.grad_output unquantised", "blocks.1.down dgrad.weight unquantised"),
                cure(d));
        assertProved(d);
        assertFoundInTime(d);
        assertEquals(
                "blocks.1.down dgrad is at fault: the product is wrong, not its codes and scales, for fake"
                        + " quantisation is healthy; current scaling does not cure, high precision does.",
                d.sentence());
    }

    @Test
    void a_scale_that_is_stale_in_the_second_micro_batch_is_found_and_current_scaling_cures_it() throws IOException {
        Diagnosis d = examinedAfter(
                run("recipe: delayed", "gradient_accumulation: 2"),
                3,
                device -> PlantedDevice.withStaleScale(device, "fp8.blocks.2.down.input.quant_scale", 1e5f),
                (name, x) -> {});
        assertEquals(Verdict.STALE_SCALES, d.verdict(), d.sentence());
        assertEquals(Set.of("blocks.2.down fprop.input current", "blocks.2.down wgrad.input current"), cure(d));
        assertProved(d);
        assertEquals(
                "The input of blocks.2.down in fprop and wgrad is at fault: scales of earlier steps do not fit; current"
                        + " scaling cures.",
                d.sentence());
    }

    @Test
    void an_e5m2_wgrad_that_underflows_after_a_spike_is_found_and_current_scaling_cures_it() throws IOException {
        Diagnosis d = examinedAfter(run("recipe: delayed, high_precision: [dgrad]"), 3, x -> x, (name, x) -> {
            if (name.equals("fp8.blocks.1.up.grad_output.amax_history")) {
                x[x.length - 5] = 1e9f;
            } else if (name.equals("fp8.blocks.1.up.grad_output.quant_scale")) {
                x[0] = 57344 / 1e9f;
            }
        });
        assertEquals(Verdict.STALE_SCALES, d.verdict(), d.sentence());
        assertEquals(Set.of("blocks.1.up wgrad.grad_output current"), cure(d));
        assertProved(d);
        assertFoundInTime(d);
    }

    @Test
    void a_history_of_length_one_under_a_growing_amax_is_found_and_current_scaling_cures_it() throws IOException {
        StackRun growing = run("recipe: delayed, amax_history_len: 1").rows((row, x) -> {
            for (int i = 0; i < x.length; i++) {
                x[i] *= (float) Math.pow(8, (double) (row / StackRun.BATCH));
            }
        });
        Diagnosis d = examined(growing);
        assertEquals(Verdict.STALE_SCALES, d.verdict(), d.sentence());
        assertEquals(Set.of("in fprop.input current", "in wgrad.input current"), cure(d));
        assertProved(d);
    }

    @Test
    void an_outlier_channel_is_found_and_only_high_precision_cures_it() throws IOException {
        StackRun outlier = run("recipe: delayed", "freeze: [in.weight]")
                .rows((row, x) -> x[5] *= 1e6f)
                .weights((name, w) -> {
                    if (name.equals("in.weight")) {
                        for (int i = 5; i < w.length; i += StackRun.IN) {
                            w[i] *= 1e-6f;
                        }
                    }
                });
        Diagnosis d = examined(outlier);
        assertEquals(Verdict.RANGE, d.verdict(), d.sentence());
        assertEquals(Set.of("in fprop.input unquantised"), cure(d));
        assertProved(d);
        assertFoundInTime(d);
        assertTrue(d.sentence().contains("current scaling does not cure"), d.sentence());
    }

    @Test
    void an_outlier_token_is_found_and_only_high_precision_cures_it() throws IOException {
        StackRun outlier = run("recipe: current").rows((row, x) -> {
            for (int i = 0; i < x.length && row % StackRun.BATCH == 7; i++) {
                x[i] *= 1e6f;
            }
        });
        Diagnosis d = examined(outlier);
        assertEquals(Verdict.RANGE, d.verdict(), d.sentence());
        assertEquals(Set.of("in fprop.input unquantised", "in wgrad.input unquantised"), cure(d));
        assertProved(d);
    }

    private static StackRun withZeroRow() {
        return run("recipe: rowwise").rows((row, x) -> {
            if (row % StackRun.BATCH == 7) {
                Arrays.fill(x, 0);
            }
        });
    }

    @Test
    void a_row_of_zeros_whose_scale_is_not_a_number_is_found() throws IOException {
        Diagnosis d = examined(
                withZeroRow(),
                device -> PlantedDevice.of(device, PlantedDevice.noGuardForZeroRows("in", StackRun.BATCH)),
                ExaminationOptions.defaults());
        assertEquals(Verdict.RANGE, d.verdict(), d.sentence());
        assertEquals(Set.of("in fprop.input unquantised"), cure(d));
        assertProved(d);
        assertFoundInTime(d);
    }

    @Test
    void a_row_of_zeros_alone_is_healthy() throws IOException {
        assertEquals(Verdict.HEALTHY, examined(withZeroRow()).verdict());
    }

    @Test
    void a_transposed_grid_of_scales_is_found_and_told_from_a_bad_scale() throws IOException {
        StackRun wide = StackRun.wide(BLOCKS)
                .with("precision: {mode: fp8, recipe: block}")
                .weights((name, w) -> {
                    for (int i = 0; i < w.length && name.equals("blocks.1.up.weight"); i++) {
                        w[i] *= 1 << (i / StackRun.WIDE / 128); // rows of blocks that differ
                    }
                });
        Diagnosis d = examined(
                wide,
                device -> PlantedDevice.of(device, PlantedDevice.transposedGrid("blocks.1.up", 4, 2)),
                ExaminationOptions.defaults().withSteps(2));
        assertEquals(Verdict.PRODUCT, d.verdict(), d.sentence());
        assertEquals(List.of("blocks.1.up fprop"), products(d));
        assertProved(d);
        assertFoundInTime(d);
    }

    private static List<String> products(Diagnosis d) {
        return d.culprits().stream()
                .flatMap(c -> c.products().stream())
                .map(Object::toString)
                .toList();
    }

    private static StackRun sensitiveHead(String precision) {
        return run("recipe: current" + precision, "freeze: [head.weight, ^norm]")
                .weights((name, w) -> {
                    if (name.equals("norm.weight")) {
                        w[5] = 1e5f;
                    } else if (name.equals("head.weight")) {
                        for (int i = 5; i < w.length; i += StackRun.WIDTH) {
                            w[i] *= 1e-5f;
                        }
                    }
                });
    }

    @Test
    void a_head_that_should_have_been_exempt_is_found() throws IOException {
        Diagnosis d = examined(sensitiveHead(""));
        assertEquals(Verdict.RANGE, d.verdict(), d.sentence());
        assertEquals(List.of("head fprop"), products(d));
        assertProved(d);
        assertFoundInTime(d);
        assertEquals(
                Verdict.HEALTHY, examined(sensitiveHead(", exempt_last: true")).verdict());
    }

    @Test
    void data_that_spike_alike_in_the_reference_are_not_the_fault_of_fp8() throws IOException {
        StackRun spike = run("recipe: current")
                .labels((row, label) -> row / StackRun.BATCH == 2 ? (label + 3) % StackRun.CLASSES : label);
        Diagnosis d = examinedAfter(spike, 64, x -> x, (name, x) -> {});
        assertEquals(Verdict.SPIKE, d.verdict(), d.sentence());
        assertEquals(List.of(67L), d.spikes(), "the third batch of the ninth epoch of eight");
        assertEquals(List.of(), d.culprits());
    }

    @Test
    void two_culprits_in_different_layers_and_products_are_both_found() throws IOException {
        Diagnosis d = examinedAfter(run("recipe: delayed, high_precision: [dgrad]"), 3, x -> x, (name, x) -> {
            for (String tensor : List.of("fp8.blocks.1.up.grad_output", "fp8.head.grad_output")) {
                if (name.equals(tensor + ".amax_history")) {
                    x[x.length - 5] = 1e9f;
                } else if (name.equals(tensor + ".quant_scale")) {
                    x[0] = 57344 / 1e9f;
                }
            }
        });
        assertEquals(Verdict.STALE_SCALES, d.verdict(), d.sentence());
        assertEquals(Set.of("blocks.1.up wgrad.grad_output current", "head wgrad.grad_output current"), cure(d));
        assertProved(d);
    }

    @Test
    void scales_that_are_stale_everywhere_are_cured_product_by_product() throws IOException {
        Diagnosis d = examinedAfter(run("recipe: delayed"), 3, x -> x, (name, x) -> {
            if (name.endsWith("grad_output.amax_history")) {
                x[x.length - 5] = 1e9f;
            } else if (name.endsWith("grad_output.quant_scale")) {
                x[0] = 57344 / 1e9f;
            }
        });
        assertEquals(Verdict.STALE_SCALES, d.verdict(), d.sentence());
        assertTrue(d.culprits().stream().allMatch(c -> c.extent() == Extent.ALL_LAYERS));
        assertEquals(
                Set.of(Product.DGRAD, Product.WGRAD),
                d.culprits().stream()
                        .map(c -> c.products().getFirst().product())
                        .collect(Collectors.toSet()));
        assertTrue(d.culprits().stream().allMatch(c -> c.remedy() == Remedy.CURRENT_SCALING));
        assertFalse(d.proof().orElseThrow().deviation().isSick());
    }

    @Test
    void a_fused_norm_that_is_wrong_is_named_as_a_feature_where_features_come_first() throws IOException {
        StackRun run = run("recipe: delayed");
        Diagnosis d = examined(
                run,
                device -> PlantedDevice.of(device, PlantedDevice.wrongFusedNorm("blocks.1.up", 1.5f)),
                ExaminationOptions.defaults().withFeatures());
        assertEquals(Verdict.FEATURE, d.verdict(), d.sentence());
        assertEquals("fused_norm", d.feature());
        assertFalse(d.proof().orElseThrow().deviation().isSick());
    }

    @Test
    void numbers_that_are_not_finite_from_the_first_step_are_not_the_fault_of_fp8() throws IOException {
        Diagnosis d = examined(run("recipe: current").weights((name, w) -> {
            if (name.equals("head.weight")) {
                Arrays.fill(w, 1e38f);
            }
        }));
        assertEquals(Verdict.REFERENCE_NOT_FINITE, d.verdict());
        assertEquals(1, d.replays());
        assertTrue(d.sentence().contains("'head'"), d.sentence());
    }

    @Test
    void a_run_without_fp8_has_nothing_to_examine() throws IOException {
        Diagnosis d = examined(StackRun.of(1).with("precision: {mode: bf16}"));
        assertEquals(Verdict.NO_FP8, d.verdict());
        assertEquals(0, d.replays());
        assertEquals(
                Verdict.NO_FP8,
                examined(run("recipe: current, filter: torchao_rowwise")).verdict(),
                "too small");
    }

    @Test
    void too_little_data_is_an_error_that_says_how_much_is_needed() {
        StackRun run = StackRun.of(1).with("precision: {mode: fp8}").batch(StackRun.SAMPLES + 1);
        InvalidDataException e = assertThrows(InvalidDataException.class, () -> examined(run));
        assertEquals("there are 256 samples, but a batch takes 257", e.what());
    }

    @Test
    void a_checkpoint_of_another_model_is_an_error() throws IOException {
        try (Device device = CpuDevice.of(1);
                Trainer trainer = Trainer.of(run("recipe: current").parts(), device)) {
            TrainingState state = after(trainer, 1, (name, x) -> {});
            Map<String, Tensor> weights = new TreeMap<>(state.parameters());
            weights.put("head.bias", Tensor.ofFloats(Arena.ofAuto(), "head.bias", Shape.of(2), 1, 2));
            TrainingState other = new TrainingState(1, 1, Map.of(), state.numbers(), weights, state.state());
            InvalidDataException e = assertThrows(
                    InvalidDataException.class, () -> trainer.examine(other, ExaminationOptions.defaults()));
            assertEquals("the checkpoint has 'head.bias' as [2], the model as [8]", e.what());
        }
    }

    @Test
    void a_spent_budget_says_what_is_known_and_a_log_goes_on_from_there() throws IOException {
        StackRun run = run("recipe: delayed, high_precision: [dgrad]");
        Path file = folder.resolve("replays.jsonl");
        BiConsumer<String, float[]> damage = (name, x) -> {
            if (name.equals("fp8.blocks.1.up.grad_output.amax_history")) {
                x[x.length - 5] = 1e9f;
            } else if (name.equals("fp8.blocks.1.up.grad_output.quant_scale")) {
                x[0] = 57344 / 1e9f;
            }
        };
        try (Device device = CpuDevice.of(2);
                Trainer trainer = Trainer.of(run.parts(), device);
                Arena arena = Arena.ofShared()) {
            Excerpt excerpt = trainer.excerpt(after(trainer, 3, damage), 2, arena);
            Diagnosis whole = Examination.of(excerpt, ExaminationOptions.defaults());
            List<Integer> suspects = new ArrayList<>();
            Diagnosis last = whole;
            int sessions = 0;
            do {
                ExaminationOptions some = ExaminationOptions.defaults()
                        .withBudget(3, Duration.ofHours(1))
                        .withLog(ReplayLog.file(file, excerpt.identity()));
                last = Examination.of(excerpt, some);
                suspects.add(last.suspects().size());
                sessions++;
            } while (!last.complete() && sessions < 20);
            assertEquals((whole.replays() + 2) / 3, sessions, "each goes on where the one before it ended");
            assertEquals(whole.cure(), last.cure());
            assertEquals(whole.verdict(), last.verdict());
            assertEquals(whole.sentence(), last.sentence());
            assertEquals(0, suspects.getFirst(), "the noise floor comes first");
            assertEquals(8, suspects.get(1), "fprop is healthy, so wgrad is not, in one of eight layers");
            assertEquals(1, suspects.get(2), "three halves later");

            // a line that a crash left half written costs that replay and no more
            Files.writeString(file, "{\"key\": \"conf", StandardOpenOption.APPEND);
            Diagnosis again = Examination.of(
                    excerpt,
                    ExaminationOptions.defaults()
                            .withBudget(0, Duration.ofHours(1))
                            .withLog(ReplayLog.file(file, excerpt.identity())));
            assertTrue(again.complete());
            assertTrue(again.evidence().experiments().stream().allMatch(e -> e.reused()));
            // the log of another excerpt is none
            Diagnosis other = Examination.of(
                    excerpt,
                    ExaminationOptions.defaults()
                            .withBudget(0, Duration.ofHours(1))
                            .withLog(ReplayLog.file(file, "another")));
            assertEquals(Verdict.UNFINISHED, other.verdict());
            assertFalse(other.complete());
        }
    }

    @Test
    void a_budget_that_ends_before_products_are_compared_is_told() throws IOException {
        Diagnosis d = examined(
                run("recipe: current"), x -> x, ExaminationOptions.defaults().withBudget(4, Duration.ofHours(1)));
        assertEquals(Verdict.HEALTHY, d.verdict());
        assertFalse(d.complete());
        assertEquals(4, d.replays());
        assertTrue(d.sentence().endsWith("The budget was spent before single products were compared."), d.sentence());
        Diagnosis none = examined(
                run("recipe: current"), x -> x, ExaminationOptions.defaults().withBudget(9, Duration.ofNanos(-1)));
        assertEquals("The budget was spent before the noise floor was known.", none.sentence());
        assertEquals(0, none.replays());
    }

    @Test
    void an_examination_leaves_the_trainer_as_it_is() throws IOException {
        try (Device device = CpuDevice.of(2);
                Trainer trainer = Trainer.of(run("recipe: delayed").parts(), device);
                Trainer other = Trainer.of(run("recipe: delayed").parts(), device)) {
            trainer.step(1);
            other.step(1);
            trainer.examine(null, ExaminationOptions.defaults().withSteps(1));
            assertEquals(other.step(2).loss(), trainer.step(2).loss());
        }
    }

    @Test
    void every_product_has_a_cell_and_the_culprit_the_highest() throws IOException {
        Diagnosis d = examined(
                withZeroRow(),
                device -> PlantedDevice.of(device, PlantedDevice.noGuardForZeroRows("in", StackRun.BATCH)),
                ExaminationOptions.defaults());
        assertEquals(3 * d.layers(), d.evidence().cells().size());
        Evidence.Cell highest = d.evidence().cells().stream()
                .max((a, b) -> Double.compare(a.excess(), b.excess()))
                .orElseThrow();
        assertEquals("in fprop", highest.product().toString());
        assertEquals(1, highest.together());
        assertEquals(
                Map.of(new ProductOperand(Product.FPROP, LinearTensor.INPUT), new OperandChange.Unquantised()),
                d.cure().get("in"));
    }
}
