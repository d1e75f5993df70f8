package dev.octet.trainer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.BFloat16;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.qat.Method;
import dev.octet.trainer.step.GraphSource;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Runs in {@code precision.mode: qat}, of a small classifier. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class QatRunTest {
    @TempDir
    Path folder;

    static List<String> modes() {
        return List.of(
                "{mode: qat, weights: {format: int4}, inputs: {format: int8}}",
                "{mode: qat, base: bf16, weights: {format: int8, granularity: tensor}, inputs: {format: int8}}",
                "{mode: qat, weights: {format: e4m3}, inputs: {format: e4m3}}",
                "{mode: qat, method: lsq+, weights: {format: int4}, inputs: {format: uint4}}",
                "{mode: qat, weights: {method: dorefa, format: uint4}, inputs: {method: pact, format: uint8},"
                        + " layers: [{match: first, inputs: none}]}",
                "{mode: qat, weights: {method: dorefa, format: uint4}, gradients: {bits: 6}}",
                "{mode: qat, method: fixed, weights: {format: e4m3}, inputs: {format: int8}}",
                "{mode: qat, method: dynamic, weights: {format: int8}, inputs: {format: int8}}",
                "{mode: qat, method: dynamic, weights: {format: mxfp8, group_size: 8}, inputs: {format: mxfp8,"
                        + " group_size: 8}}",
                "{mode: qat, weights: {format: int4, granularity: group, group_size: 4}, inputs: {method: dynamic,"
                        + " variant: zero_point, format: int8}}",
                "{mode: qat, base: bf16, inputs: {method: dynamic, variant: zero_point, format: uint8, granularity:"
                        + " group, group_size: 8}}",
                "{mode: qat, method: range, weights: {format: int4}, inputs: {format: int8}}",
                "{mode: qat, weights: {method: modelopt-lsq, format: nvfp4, group_size: 8}, inputs: {method: dynamic,"
                        + " format: nvfp4, group_size: 8}}",
                "{mode: qat, method: dynamic, weights: {format: e4m3, variant: through_scale}, inputs: {format: e4m3,"
                        + " variant: through_scale}}",
                "{mode: qat, weights: {format: int4, granularity: group, group_size: 4}, scales: {lr_factor: 0.1,"
                        + " fold_at: 25, type: bf16}}");
    }

    private static RunEnd run(TrainingParts parts, Path folder, RunOptions options) throws IOException {
        try (Device device = CpuDevice.of(2);
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

    private static Map<String, byte[]> files(Path run, long step) throws IOException {
        Map<String, byte[]> files = new TreeMap<>();
        try (Stream<Path> all = Files.list(new CheckpointFolder(run).path(step))) {
            for (Path file : all.toList()) {
                files.put(file.getFileName().toString(), Files.readAllBytes(file));
            }
        }
        return files;
    }

    private static Map<String, float[]> parameters(Path run) throws IOException {
        Map<String, float[]> all = new TreeMap<>();
        try (CheckpointFile file = new CheckpointFolder(run).openNewest()) {
            for (Map.Entry<String, Tensor> p : file.state().parameters().entrySet()) {
                all.put(p.getKey(), p.getValue().toFloats());
            }
        }
        return all;
    }

    @ParameterizedTest
    @MethodSource("modes")
    void the_loss_falls(String precision) throws IOException {
        run(SmallRun.parts(SmallRun.with("precision: " + precision)), folder, RunOptions.defaults());
        List<Double> losses = losses(folder);
        assertEquals(40, losses.size());
        assertTrue(losses.getFirst() > 0.7 && losses.getLast() < 0.4, losses.toString());
    }

    @ParameterizedTest
    @MethodSource("modes")
    void a_few_steps_of_distillation_bring_the_model_nearer_to_its_teacher(String precision) throws IOException {
        String yaml = SmallRun.with(
                "loss: {type: cross-entropy, distillation: {teacher: made, temperature: 2, weight: 1}}",
                "precision: " + precision);
        run(SmallRun.taught(yaml), folder, RunOptions.defaults().withMaxSteps(20));
        List<Double> losses = losses(folder);
        assertEquals(20, losses.size());
        // batches differ, so four are compared with four
        double early = losses.subList(0, 4).stream().mapToDouble(d -> d).sum();
        double late = losses.subList(16, 20).stream().mapToDouble(d -> d).sum();
        assertTrue(Double.isFinite(late) && late < 0.9 * early, losses.toString());
    }

    @Test
    void every_method_is_among_the_modes_that_are_tried() {
        for (Method method : Method.values()) {
            String word = method == Method.LSQ ? "{mode: qat, weights: {format: int4}" : "method: " + method.label();
            assertTrue(modes().stream().anyMatch(m -> m.contains(word)), method.label());
        }
    }

    @ParameterizedTest
    @MethodSource("modes")
    void steps_then_resumed_steps_are_the_same_bytes_as_all_at_once(String precision) throws IOException {
        TrainingParts parts = SmallRun.parts(SmallRun.with("gradient_accumulation: 2", "precision: " + precision));
        Path whole = folder.resolve("whole");
        run(parts, whole, RunOptions.defaults());
        Path pieces = folder.resolve("pieces");
        SplittableRandom random = new SplittableRandom(11);
        RunEnd end = run(parts, pieces, RunOptions.defaults().withMaxSteps(1 + random.nextInt(12)));
        while (end.reason() == RunEnd.Reason.INTERRUPTED) {
            end = run(parts, pieces, RunOptions.defaults().resuming().withMaxSteps(1 + random.nextInt(12)));
        }
        Map<String, byte[]> expected = files(whole, 40);
        Map<String, byte[]> actual = files(pieces, 40);
        assertEquals(expected.keySet(), actual.keySet());
        expected.forEach((name, bytes) -> assertArrayEquals(bytes, actual.get(name), name));
        assertEquals(losses(whole), losses(pieces));
    }

    @Test
    void scales_are_learned_and_lie_in_the_checkpoint_under_the_names_of_their_modules() throws IOException {
        String yaml = SmallRun.with("precision: {mode: qat, weights: {format: int4}, inputs: {format: int8}}");
        run(SmallRun.parts(yaml), folder.resolve("one"), RunOptions.defaults().withMaxSteps(1));
        run(SmallRun.parts(yaml), folder.resolve("all"), RunOptions.defaults());
        Map<String, float[]> one = parameters(folder.resolve("one"));
        Map<String, float[]> all = parameters(folder.resolve("all"));
        List<String> scales =
                all.keySet().stream().filter(n -> n.contains("_quantizer.")).toList();
        assertEquals(
                List.of(
                        "first.input_quantizer.scale",
                        "first.weight_quantizer.scale",
                        "second.input_quantizer.scale",
                        "second.weight_quantizer.scale"),
                scales);
        for (String name : scales) {
            float[] scale = requireNonNull(all.get(name));
            assertNotEquals(requireNonNull(one.get(name))[0], scale[0], name);
            assertEquals(name.contains("weight") ? requireNonNull(all.get(name)).length : 1, scale.length);
        }
    }

    @Test
    void with_the_variant_amax_scales_start_at_the_largest_weight_divided_by_the_largest_code() throws IOException {
        String yaml =
                SmallRun.with("freeze: [_quantizer]", "precision: {mode: qat, weights: {format: int4, variant: amax}}");
        TrainingParts parts = SmallRun.parts(yaml);
        run(parts, folder, RunOptions.defaults().withMaxSteps(1));
        float[] scales = requireNonNull(parameters(folder).get("first.weight_quantizer.scale"));
        Initializer weight =
                requireNonNull(parts.model().graph().graph().initializers().get("w1"));
        float[] w = weight.tensor().orElseThrow().toFloats();
        assertEquals(SmallRun.HIDDEN, scales.length);
        for (int out = 0; out < scales.length; out++) {
            float amax = 0;
            for (int in = 0; in < SmallRun.IN; in++) {
                amax = Math.max(amax, Math.abs(w[in * SmallRun.HIDDEN + out]));
            }
            assertEquals(amax / 7, scales[out], Math.ulp(amax), "output " + out);
        }
    }

    @Test
    void folded_scales_are_numbers_of_the_stored_type_and_stay() throws IOException {
        String yaml = SmallRun.with(
                "precision: {mode: qat, weights: {format: int4}, inputs: {format: int8}, scales: {fold_at: 20, type:"
                        + " bf16}}");
        run(SmallRun.parts(yaml), folder.resolve("early"), RunOptions.defaults().withMaxSteps(20));
        run(SmallRun.parts(yaml), folder.resolve("late"), RunOptions.defaults());
        Map<String, float[]> early = parameters(folder.resolve("early"));
        parameters(folder.resolve("late")).forEach((name, values) -> {
            if (name.contains("_quantizer.")) {
                assertArrayEquals(early.get(name), values, name);
                for (float v : values) {
                    assertEquals(v, BFloat16.toFloat(BFloat16.fromFloat(v)), name);
                }
            }
        });
    }

    @Test
    void frozen_scales_stay_where_the_run_starts() throws IOException {
        String yaml = SmallRun.with(
                "freeze: [_quantizer]", "precision: {mode: qat, weights: {format: e4m3}, inputs: {format: e4m3}}");
        run(SmallRun.parts(yaml), folder.resolve("one"), RunOptions.defaults().withMaxSteps(1));
        run(SmallRun.parts(yaml), folder.resolve("all"), RunOptions.defaults());
        Map<String, float[]> one = parameters(folder.resolve("one"));
        parameters(folder.resolve("all")).forEach((name, values) -> {
            if (name.contains("_quantizer.")) {
                assertArrayEquals(one.get(name), values, name);
            }
        });
    }

    @Test
    void a_layer_that_is_never_executed_is_refused_by_name_before_the_first_step() {
        TrainingParts parts = SmallRun.parts(
                SmallRun.with("precision: {mode: qat, weights: {format: int4}, inputs: {format: int8}}"));
        GraphSource model = parts.model();
        GraphEdit edit = GraphEdit.of(model.graph().graph());
        edit.putInitializer(Initializer.of(Tensor.ofFloats(
                Arena.ofAuto(), "aside.weight", Shape.of(2, SmallRun.HIDDEN), new float[2 * SmallRun.HIDDEN])));
        edit.append(Node.of(
                "aside",
                "Linear",
                Node.OCTET_DOMAIN,
                List.of("a", "aside.weight"),
                List.of("unused"),
                Attribute.of("transB", 1)));
        List<ValueInfo> outputs = new ArrayList<>(edit.outputs());
        outputs.add(new ValueInfo("unused", new TensorType(DType.F32, List.of(Dim.of("batch"), Dim.of(2)))));
        edit.setOutputs(outputs);
        TrainingParts aside = new TrainingParts(
                parts.config(),
                new GraphSource(model.graph().withGraph(edit.build()), model.at()),
                parts.teacher(),
                parts.train(),
                parts.eval(),
                parts.inputs());
        InvalidOptionException e =
                assertThrows(InvalidOptionException.class, () -> run(aside, folder, RunOptions.defaults()));
        assertEquals("the loss does not depend on 1 layer with learned scales: aside", e.what());
        assertTrue(e.where().contains("precision: {mode: qat}"), e.where());
        assertTrue(e.fix().contains("layers: [{match: 'aside', quantize: false}]"), e.fix());
    }

    @Test
    void groups_of_an_input_that_reach_into_the_next_row_are_refused() {
        String yaml = SmallRun.with("precision: {mode: qat, inputs: {method: dynamic, format: int8, granularity: group,"
                + " group_size: 12}}");
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class, () -> run(SmallRun.parts(yaml), folder, RunOptions.defaults()));
        assertTrue(e.what().contains("no multiple of groups of 12"), e.what());
    }

    @Test
    void an_adapter_is_refused_with_the_reason() {
        String yaml = SmallRun.with(
                "adapter: {r: 2, lora_alpha: 4, target_modules: [first]}",
                "precision: {mode: qat, weights: {format: int4}}");
        InvalidOptionException e = assertThrows(InvalidOptionException.class, () -> SmallRun.parts(yaml));
        assertTrue(e.what().contains("an adapter leaves them frozen"), e.what());
    }

    @Test
    void settings_that_cannot_be_are_refused() {
        for (String precision : List.of(
                "{mode: qat}",
                "{mode: qat, weights: {format: int9}}",
                "{mode: qat, weights: {format: int4}, gradients: {bits: 9}}",
                "{mode: qat, weights: {format: int4}, gradients: {}}",
                "{mode: qat, weights: {format: int4, variant: code}}",
                "{mode: qat, weights: {method: fixed, format: int4, variant: amax}}",
                "{mode: qat, weights: {method: pact, format: uint4}}",
                "{mode: qat, inputs: {method: pact, format: int4}}",
                "{mode: qat, inputs: {format: nvfp4}}",
                "{mode: qat, weights: {method: lsq+, format: e4m3}}",
                "{mode: qat, weights: {method: dorefa, format: uint4, granularity: channel}}",
                "{mode: qat, weights: {format: int4, group_size: 8}}",
                "{mode: qat, weights: {format: int4}, scales: {type: bf16}}",
                "{mode: bf16, weights: {format: int4}}")) {
            assertThrows(
                    InvalidOptionException.class,
                    () -> SmallRun.parts(SmallRun.with("precision: " + precision)),
                    precision);
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "inputs: {method: dynamic, variant: zero_point, format: e4m3} | zero points are for integers, and the"
                        + " format is e4m3 | int2 to int8",
                "inputs: {method: dynamic, variant: zero_point, format: nvfp4} | the format is nvfp4 | leave variant"
                        + " out",
                "weights: {method: dynamic, variant: zero_point, format: int4} | are for inputs | method: range",
                "inputs: {method: lsq, variant: zero_point, format: int8} | lsq has no variant zero_point | amax",
                "inputs: {method: dynamic, variant: asymmetric, format: int8} | asymmetric | zero_point"
            })
    void zero_points_that_cannot_be_are_refused_with_what_can(String operand, String what, String fix) {
        String yaml = SmallRun.with("precision: {mode: qat, " + operand + "}");
        InvalidOptionException e = assertThrows(InvalidOptionException.class, () -> SmallRun.parts(yaml));
        assertTrue(e.what().contains(what), e.what());
        assertTrue(e.fix().contains(fix), e.fix());
    }

    @Test
    void groups_that_do_not_divide_a_weight_are_refused_with_its_name() {
        String yaml =
                SmallRun.with("precision: {mode: qat, weights: {format: int4, granularity: group, group_size: 5}}");
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class, () -> run(SmallRun.parts(yaml), folder, RunOptions.defaults()));
        assertTrue(e.what().contains("the weight of 'first', [8, 16], cannot be cut into groups"), e.what());
        assertTrue(e.fix().contains("group_size that divides its inputs"), e.fix());
        assertTrue(e.fix().contains("layers: [{match: 'first', quantize: false}]"), e.fix());
    }
}
