package dev.octet.trainer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.hook.Gradients;
import dev.octet.trainer.hook.ObservationReport;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.TrainingHook;
import dev.octet.trainer.observe.TensorReport;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Runs with {@code debug:}, of the small classifier: what they write, and that looking changes nothing. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class DebugRunTest {
    private static final String FP8 = "precision: {mode: fp8, amax_history_len: 4}";
    private static final String ALL = "[activation, gradient, weight, output, wgrad, dgrad]";

    @TempDir
    Path folder;

    private static RunEnd run(TrainingParts parts, Path folder, RunOptions options) throws IOException {
        try (Device device = CpuDevice.of(2);
                Trainer trainer = Trainer.of(parts, device)) {
            return trainer.run(folder, options);
        }
    }

    private static Map<String, float[]> weights(String yaml, long steps) throws IOException {
        try (Device device = CpuDevice.of(2);
                Trainer trainer = Trainer.of(SmallRun.parts(yaml), device);
                Arena arena = Arena.ofConfined()) {
            for (long step = 1; step <= steps; step++) {
                trainer.step(step);
            }
            Map<String, float[]> weights = new TreeMap<>();
            trainer.parameters(arena).forEach((name, t) -> weights.put(name, t.toFloats()));
            return weights;
        }
    }

    private static String debug(String features) {
        return debug(features, "");
    }

    /** @param keys others than sections */
    private static String debug(String features, String keys) {
        return "debug: {" + keys + "all: {enabled: true, layers: {layer_types: [all]}, transformer_engine: {" + features
                + "}}}";
    }

    private static String stats(String tensors, String stats) {
        return "LogTensorStats: {enabled: true, tensors: " + tensors + ", stats: [" + stats + "]}";
    }

    /** Keeps what was observed. */
    private static final class Watch implements TrainingHook {
        private final List<ObservationReport> reports = new ArrayList<>();

        @Override
        public void tensorsObserved(ObservationReport report) {
            reports.add(report);
        }

        double value(int report, String name) {
            for (TensorReport t : reports.get(report).tensors()) {
                for (Map.Entry<String, Double> v : t.values().entrySet()) {
                    if (t.name(v.getKey()).equals(name)) {
                        return v.getValue();
                    }
                }
            }
            throw new AssertionError(name + " is not among " + reports.get(report));
        }
    }

    private Watch watched(long steps, String... lines) throws IOException {
        Watch watch = new Watch();
        run(
                SmallRun.parts(SmallRun.with(lines)),
                folder,
                RunOptions.defaults().withMaxSteps(steps).withHooks(List.of(watch)));
        return watch;
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "precision: {mode: fp32}",
                "precision: {mode: bf16}",
                FP8,
                "precision: {mode: msamp}",
                "precision: {mode: msamp, opt_level: O3, use_te: true}"
            })
    void looking_at_every_tensor_leaves_every_bit_of_the_weights(String precision) throws IOException {
        String[] lines = {precision, "gradient_accumulation: 2"};
        Watch watch = watched(
                3,
                precision,
                "gradient_accumulation: 2",
                "checkpoint: {every: 3}",
                debug(stats(ALL, "mean, std")
                        + ", LogFp8TensorStats: {enabled: true, tensors: [activation, gradient, weight], stats:"
                        + " [mxfp8_mse, fp8_current_scaling_underflows%, fp8_block_scaling_mse_columnwise]}"));
        assertEquals(3, watch.reports.size());
        Map<String, float[]> expected = weights(SmallRun.with(lines), 3);
        Map<String, float[]> found = new TreeMap<>();
        try (var file = new CheckpointFolder(folder).openNewest()) {
            file.state().parameters().forEach((name, t) -> found.put(name, t.toFloats()));
        }
        assertEquals(expected.keySet(), found.keySet());
        expected.forEach((name, w) -> assertArrayEquals(w, requireNonNull(found.get(name)), name));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "DisableQuantizationGEMM: {enabled: true, gemms: [dgrad]}",
                "DisableQuantizationLayer: {enabled: true}",
                "PerTensorScaling: {enabled: true, gemms: [fprop], tensors: [activation]}",
                "FakeQuant: {enabled: true, gemms: [fprop], tensors: [activation], quant_format: FP8E4M3}"
            })
    void what_would_change_products_of_msamp_is_refused(String feature) {
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class, () -> watched(1, "precision: {mode: msamp}", debug(feature)));
        assertEquals(
                "mode msamp has no other way to compute layer 'first': its weights are there in few bits only",
                e.what());
        assertEquals(
                "keep only features that read tensors, LogTensorStats, LogFp8TensorStats and DumpTensors", e.fix());
    }

    @Test
    void every_step_has_a_line_for_each_layer_and_tensor_of_the_gate() throws IOException {
        watched(
                5,
                FP8,
                debug("LogTensorStats: {enabled: true, tensors_struct: [{tensor: weight, stats: [cur_amax], freq: 2},"
                        + " {tensor: gradient, stats: [min, max], start_step: 4, end_step: 4}]}"));
        List<String> seen = new ArrayList<>();
        ObjectMapper json = new ObjectMapper();
        for (String line : Files.readAllLines(folder.resolve("debug.jsonl"))) {
            JsonNode node = json.readTree(line);
            assertEquals(node.get("step"), node.get("iteration"));
            List<String> names = new ArrayList<>();
            node.get("stats").fieldNames().forEachRemaining(names::add);
            seen.add(node.get("step") + " " + node.get("layer").asText() + " "
                    + node.get("tensor").asText() + " " + names);
        }
        assertEquals(
                List.of(
                        "2 first weight [cur_amax]",
                        "2 second weight [cur_amax]",
                        "4 first gradient [min, max]",
                        "4 first weight [cur_amax]",
                        "4 second gradient [min, max]",
                        "4 second weight [cur_amax]"),
                seen.stream().sorted().toList());
        assertFalse(Files.readString(folder.resolve("metrics.jsonl")).contains("cur_amax"));
    }

    @Test
    void weights_gradients_and_results_are_those_of_the_step() throws IOException {
        Watch watch = watched(1, "precision: {mode: fp32}", debug(stats(ALL, "l2_norm, mean, cur_amax")));
        float[] w1 = requireNonNull(SmallRun.parts(SmallRun.CONFIG)
                        .model()
                        .graph()
                        .graph()
                        .initializers()
                        .get("w1"))
                .tensor()
                .orElseThrow()
                .toFloats();
        double squares = 0;
        double sum = 0;
        for (float w : w1) {
            squares += (double) w * w;
            sum += w;
        }
        assertEquals(Math.sqrt(squares), watch.value(0, "first_weight_l2_norm"), 1e-9);
        assertEquals(sum / w1.length, watch.value(0, "first_weight_mean"), 1e-9);
        // the gradients that the optimizer gets
        Map<String, float[]> gradients = new TreeMap<>();
        run(
                SmallRun.parts(SmallRun.with("precision: {mode: fp32}")),
                folder.resolve("other"),
                RunOptions.defaults().withMaxSteps(1).withHooks(List.of(new TrainingHook() {
                    @Override
                    public boolean watchesGradients() {
                        return true;
                    }

                    @Override
                    public void afterBackward(long step, Gradients all) {
                        all.names().forEach(n -> gradients.put(n, all.read(n)));
                    }
                })));
        for (var layer : Map.of("first", "w1", "second", "w2").entrySet()) {
            double norm = 0;
            for (float g : requireNonNull(gradients.get(layer.getValue()))) {
                norm += (double) g * g;
            }
            assertEquals(Math.sqrt(norm), watch.value(0, layer.getKey() + "_wgrad_l2_norm"), 1e-7 * Math.sqrt(norm));
        }
        // nothing before the first layer is trained, so it has no dgrad
        assertThrows(AssertionError.class, () -> watch.value(0, "first_dgrad_mean"));
        assertTrue(watch.value(0, "second_dgrad_cur_amax") > 0);
        assertTrue(watch.value(0, "first_output_cur_amax") > 0);
    }

    @Test
    void the_gradient_of_a_later_micro_batch_is_its_own_and_not_the_sum() throws IOException {
        // two micro-batches of a step, and the same samples as two steps of a run that learns nothing
        String still = "optimizer: {type: sgd, lr: 1e-30}";
        Watch both = watched(1, "precision: {mode: fp32}", still, "gradient_accumulation: 2", debug(stats(ALL, "max")));
        Watch each = new Watch();
        run(
                SmallRun.parts(SmallRun.with("precision: {mode: fp32}", still, debug(stats(ALL, "max")))),
                folder.resolve("each"),
                RunOptions.defaults().withMaxSteps(2).withHooks(List.of(each)));
        for (String name : List.of("second_wgrad_max", "second_dgrad_max", "first_wgrad_max", "first_gradient_max")) {
            double halves = Math.max(each.value(0, name), each.value(1, name)) / 2;
            assertEquals(halves, both.value(0, name), 1e-6 * Math.abs(halves), name);
        }
        assertEquals(
                Math.max(each.value(0, "second_output_max"), each.value(1, "second_output_max")),
                both.value(0, "second_output_max"),
                1e-6);
    }

    @Test
    void any_device_finds_the_same_statistics() throws IOException {
        String yaml = SmallRun.with(FP8, "gradient_accumulation: 2", debug(stats(ALL, "mean, std, l1_norm")));
        Map<String, Double> reference = new TreeMap<>();
        Watch watch = new Watch();
        try (Device device = new ReferenceDevice();
                Trainer trainer = Trainer.of(SmallRun.parts(yaml), device)) {
            trainer.run(
                    folder.resolve("reference"),
                    RunOptions.defaults().withMaxSteps(1).withHooks(List.of(watch)));
        }
        watch.reports.getFirst().tensors().forEach(t -> t.values().forEach((n, v) -> reference.put(t.name(n), v)));
        Watch cpu = watched(1, FP8, "gradient_accumulation: 2", debug(stats(ALL, "mean, std, l1_norm")));
        assertEquals(33, reference.size());
        reference.forEach(
                (name, value) -> assertEquals(value, cpu.value(0, name), 2e-2 * Math.abs(value) + 1e-4, name));
    }

    @Test
    void the_log_has_the_lines_of_transformer_engine() throws IOException {
        watched(2, FP8, debug(stats("[weight]", "cur_amax"), "te_log: true, parity: true, init_training_step: 0, "));
        List<String> lines =
                Files.readAllLines(folder.resolve("nvdlfw_inspect_statistics_logs/nvdlfw_inspect_globalrank-0.log"));
        assertEquals(4, lines.size());
        for (int i = 0; i < 4; i++) {
            String layer = i % 2 == 0 ? "first" : "second";
            assertTrue(
                    lines.get(i)
                            .matches("\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d,\\d{3} - INFO - " + layer
                                    + "_weight_cur_amax \t\t\t\t iteration=00000" + i / 2
                                    + " \t\t\t\t value=0\\.\\d{4}"),
                    lines.get(i));
        }
        List<String> messages =
                Files.readAllLines(folder.resolve("nvdlfw_inspect_logs/nvdlfw_inspect_globalrank-0.log"));
        assertEquals(2, messages.size());
        assertTrue(messages.getFirst().endsWith(" - INFO - first: section=all, features=[LogTensorStats]"));
    }

    @Test
    void a_resumed_run_may_look_at_other_tensors_and_writes_each_step_once() throws IOException {
        String keep = "checkpoint: {every: 2}";
        watched(3, FP8, keep, debug(stats("[weight]", "mean"), "te_log: true, "));
        String other = debug(stats("[weight, activation]", "mean"), "te_log: true, ");
        run(
                SmallRun.parts(SmallRun.with(FP8, keep, other)),
                folder,
                RunOptions.defaults().withMaxSteps(2).resumingFrom(2));
        List<String> steps = new ArrayList<>();
        for (String line : Files.readAllLines(folder.resolve("debug.jsonl"))) {
            steps.add(new ObjectMapper().readTree(line).get("step").asText());
        }
        assertEquals(
                Map.of("1", 2L, "2", 2L, "3", 4L, "4", 4L),
                steps.stream().collect(Collectors.groupingBy(s -> s, Collectors.counting())));
        assertEquals(
                12,
                Files.readAllLines(folder.resolve("nvdlfw_inspect_statistics_logs/nvdlfw_inspect_globalrank-0.log"))
                        .size());
    }

    @Test
    void a_resumed_run_may_not_compute_otherwise() throws IOException {
        String keep = "checkpoint: {every: 2}";
        watched(2, FP8, keep);
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> run(
                        SmallRun.parts(SmallRun.with(
                                FP8, keep, debug("DisableQuantizationGEMM: {enabled: true, gemms: [dgrad]}"))),
                        folder,
                        RunOptions.defaults().withMaxSteps(2).resuming()));
        assertTrue(
                e.what().contains("debug_changes.first.dgrad.grad_output was (absent) and is Unquantised"), e.what());
    }

    @Test
    void dumped_tensors_are_read_back() throws IOException {
        String dump =
                "DumpTensors: {enabled: true, tensors: [activation, weight, gradient, output], high_precision_tensor:"
                        + " true, quantized_tensor: true, start_step: 2, end_step: 2}";
        watched(3, FP8, debug(dump));
        Path iteration = folder.resolve("tensor_dumps/rank_0/iter_000002");
        try (Stream<Path> files = Files.list(iteration)) {
            assertEquals(8, files.count());
        }
        assertFalse(Files.exists(iteration.resolveSibling("iter_000001")));
        try (ModelFile file = ModelFile.open(iteration.resolve("first_weight.safetensors"))) {
            Tensor high = requireNonNull(file.model().tensors().get("high_precision"));
            Tensor codes = requireNonNull(file.model().tensors().get("quantized"));
            Tensor scale = requireNonNull(file.model().tensors().get("quantized.scale_inv"));
            // the first layer's weight lies as [in, out] and is written as [out, in]
            assertEquals(
                    List.of(16L, 8L), List.of(high.shape().dim(0), high.shape().dim(1)));
            assertEquals(DType.F8_E4M3FN, codes.dtype());
            float[] x = high.toFloats();
            byte[] q = codes.bytes().toArray(ValueLayout.JAVA_BYTE);
            float s = scale.toFloats()[0];
            for (int i = 0; i < x.length; i++) {
                float value = Float8Format.E4M3FN.decode(q[i] & 0xFF) * s;
                assertEquals(x[i], value, Math.abs(x[i]) / 16 + s * 0x1p-9, "element " + i);
            }
        }
        try (ModelFile file = ModelFile.open(iteration.resolve("second_output.safetensors"))) {
            assertEquals(
                    List.of("high_precision"),
                    List.copyOf(file.model().tensors().keySet()));
        }
    }

    @Test
    void scalars_of_tensorboard_have_transformer_engine_s_names() throws IOException {
        watched(1, FP8, debug(stats("[weight]", "std")));
        try (Stream<Path> files = Files.list(folder.resolve("tensorboard"))) {
            String events = Files.readString(files.findFirst().orElseThrow(), StandardCharsets.ISO_8859_1);
            assertTrue(events.contains("first_weight_std"));
            assertTrue(events.contains("second_weight_std"));
        }
    }

    @Test
    void codes_for_both_directions_are_dumped_where_they_differ() throws IOException {
        watched(
                1,
                "precision: {mode: fp8, recipe: mxfp8}",
                debug("DumpTensors: {enabled: true, tensors: [activation], quantized_tensor: true}"));
        Path file = folder.resolve("tensor_dumps/rank_0/iter_000001/second_activation.safetensors");
        try (ModelFile dump = ModelFile.open(file)) {
            Map<String, Tensor> tensors = dump.model().tensors();
            assertEquals(
                    Set.of(
                            "quantized",
                            "quantized.scale_inv",
                            "quantized_columnwise",
                            "quantized_columnwise.scale_inv"),
                    tensors.keySet());
            // 8 tokens of 16: a run of 32 ends with its row or column
            assertEquals(
                    8,
                    requireNonNull(tensors.get("quantized.scale_inv")).shape().elementCount());
            assertEquals(
                    16,
                    requireNonNull(tensors.get("quantized_columnwise.scale_inv"))
                            .shape()
                            .elementCount());
        }
    }

    @Test
    void a_run_with_faked_tensors_resumes_to_the_bit() throws IOException {
        String fakes = debug("FakeQuant: {enabled: true, quant_format: FP8E4M3, gemms: [fprop, dgrad, wgrad], tensors: "
                + ALL + "}, LogNvfp4TensorStats: {enabled: true, tensors: [weight], stats: [mse]}");
        String[] lines = {"precision: {mode: bf16}", "checkpoint: {every: 2}", fakes};
        Map<String, float[]> straight = weights(SmallRun.with(lines), 4);
        Map<String, float[]> plain = weights(SmallRun.with("precision: {mode: bf16}"), 4);
        Watch watch = watched(2, lines);
        assertTrue(watch.value(1, "second_weight_nvfp4_mse") > 0);
        run(
                SmallRun.parts(SmallRun.with(lines)),
                folder,
                RunOptions.defaults().withMaxSteps(2).resuming());
        try (var file = new CheckpointFolder(folder).openNewest()) {
            file.state().parameters().forEach((name, t) -> assertArrayEquals(straight.get(name), t.toFloats(), name));
        }
        assertFalse(Arrays.equals(plain.get("w2"), straight.get("w2")));
    }

    @Test
    void a_statistic_of_a_recipe_that_the_layer_does_not_have_ends_the_run_with_its_name() {
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> watched(
                        1,
                        "precision: {mode: bf16}",
                        debug("LogFp8TensorStats: {enabled: true, tensors: [weight], stats: [underflows%]}")));
        assertTrue(e.what().contains("underflows% of the weight of layer 'first'"), e.what());
        assertTrue(e.fix().contains("fp8_current_scaling_underflows%"), e.fix());
    }
}
