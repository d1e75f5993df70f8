package dev.octet.trainer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.RunPlan;
import dev.octet.trainer.hook.StatePlan;
import dev.octet.trainer.step.GraphSource;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Runs whose parameters and moments are kept in few bits. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class StatesRunTest {
    /** The first matrix then has 4096 elements, which blocks keep. */
    private static final int HIDDEN = 512;

    @TempDir
    Path folder;

    static List<String> engines() {
        return List.of(
                "{engine: msamp}",
                "{engine: msamp, opt_level: O1, compat: msamp}",
                "{engine: te, master_weight_dtype: fp16, exp_avg_dtype: fp8, exp_avg_sq_dtype: fp16}",
                "{engine: te, store_param_remainders: true, exp_avg_dtype: bf16, exp_avg_sq_dtype: fp8}",
                "{engine: torchao}",
                "{engine: torchao, format: fp8, bf16_stochastic_round: true}",
                "{engine: torchao, format: int4}",
                "{engine: bf16, masters: bf16}",
                "{engine: bf16, rounding: nearest}");
    }

    private static TrainingParts parts(String states, String... more) {
        List<String> lines = new ArrayList<>(List.of(more));
        lines.add("steps: 24");
        lines.add("optimizer: {type: adamw, lr: 0.003" + (states.isEmpty() ? "" : ", states: " + states) + "}");
        TrainingParts small = SmallRun.parts(SmallRun.with(lines.toArray(String[]::new)));
        return new TrainingParts(
                small.config(),
                SmallRun.source(HIDDEN),
                Optional.empty(),
                small.train(),
                small.eval(),
                Map.of("model", "abc"));
    }

    /** The same weights in tensors with other names, as exporters give them: the names of weights come from elsewhere. */
    private static TrainingParts renamed(TrainingParts parts) {
        GraphSource model = parts.model();
        GraphEdit edit = GraphEdit.of(model.graph().graph());
        model.graph()
                .graph()
                .initializers()
                .forEach((name, weight) -> edit.putInitializer(
                        Initializer.of(weight.tensor().orElseThrow().withName("onnx::MatMul_" + name))
                                .withName(name)));
        return new TrainingParts(
                parts.config(),
                new GraphSource(model.graph().withGraph(edit.build()), model.at()),
                parts.teacher(),
                parts.train(),
                parts.eval(),
                parts.inputs());
    }

    private static RunEnd run(TrainingParts parts, Path folder, RunOptions options, int threads) throws IOException {
        try (Device device = CpuDevice.of(threads);
                Trainer trainer = Trainer.of(parts, device)) {
            return trainer.run(folder, options);
        }
    }

    private static RunEnd run(TrainingParts parts, Path folder, RunOptions options) throws IOException {
        return run(parts, folder, options, 2);
    }

    private static Map<String, byte[]> files(Path run) throws IOException {
        Map<String, byte[]> files = new TreeMap<>();
        try (Stream<Path> all = Files.list(new CheckpointFolder(run).path(24))) {
            for (Path file : all.toList()) {
                files.put(file.getFileName().toString(), Files.readAllBytes(file));
            }
        }
        return files;
    }

    private static void assertSame(Path a, Path b) throws IOException {
        Map<String, byte[]> first = files(a);
        Map<String, byte[]> second = files(b);
        assertEquals(first.keySet(), second.keySet());
        first.forEach((name, bytes) -> assertArrayEquals(bytes, second.get(name), name));
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

    private void assertPiecesAreTheWhole(TrainingParts parts) throws IOException {
        Path whole = folder.resolve("whole");
        run(parts, whole, RunOptions.defaults(), 1);
        Path pieces = folder.resolve("pieces");
        SplittableRandom random = new SplittableRandom(5);
        RunEnd end = run(parts, pieces, RunOptions.defaults().withMaxSteps(1 + random.nextInt(9)), 3);
        while (end.reason() == RunEnd.Reason.INTERRUPTED) {
            end = run(parts, pieces, RunOptions.defaults().resuming().withMaxSteps(1 + random.nextInt(9)), 3);
        }
        assertSame(whole, pieces);
        assertEquals(losses(whole), losses(pieces));
    }

    @ParameterizedTest
    @MethodSource("engines")
    void what_an_exporter_called_the_tensor_of_a_weight_does_not_matter(String states) throws IOException {
        run(parts(states), folder.resolve("plain"), RunOptions.defaults());
        run(renamed(parts(states)), folder.resolve("renamed"), RunOptions.defaults());
        assertSame(folder.resolve("plain"), folder.resolve("renamed"));
    }

    @ParameterizedTest
    @MethodSource("engines")
    void steps_then_resumed_steps_on_more_threads_are_the_same_bytes_as_all_at_once(String states) throws IOException {
        assertPiecesAreTheWhole(parts(states));
    }

    @ParameterizedTest
    @MethodSource("engines")
    void the_loss_falls_as_with_states_in_F32_on_the_CPU_and_on_the_reference_device(String states) throws IOException {
        run(parts(""), folder.resolve("f32"), RunOptions.defaults());
        run(parts(states), folder.resolve("coded"), RunOptions.defaults());
        List<Double> plain = losses(folder.resolve("f32"));
        List<Double> coded = losses(folder.resolve("coded"));
        assertTrue(coded.getFirst() > 0.8 && coded.getLast() < 0.4, coded.toString());
        double tolerance = states.contains("int4") ? 0.1 : 0.02;
        assertEquals(plain.getLast(), coded.getLast(), tolerance, () -> plain + "\n" + coded);
        try (Device device = new ReferenceDevice();
                Trainer trainer = Trainer.of(parts(states), device)) {
            for (int step = 1; step <= 5; step++) {
                assertEquals(coded.get(step - 1), trainer.step(step).loss(), 5e-3, "step " + step);
            }
        }
    }

    private static Map<String, DType> types(Path run, String file) throws IOException {
        Map<String, DType> types = new TreeMap<>();
        try (ModelFile model = ModelFile.open(new CheckpointFolder(run).path(24).resolve(file))) {
            model.model().tensors().forEach((name, t) -> types.put(name, t.dtype()));
        }
        return types;
    }

    @Test
    void a_checkpoint_has_weights_in_F32_and_states_as_codes_and_scales() throws IOException {
        run(parts("{engine: msamp}"), folder, RunOptions.defaults());
        types(folder, "parameters.safetensors").forEach((name, type) -> assertEquals(DType.F32, type, name));
        Map<String, DType> states = types(folder, "state.safetensors");
        assertEquals(DType.F16, states.get("codes:w1"));
        assertEquals(DType.F32, states.get("w1.scale"));
        assertEquals(DType.F8_E4M3FN, states.get("exp_avg:w1"));
        assertEquals(DType.F32, states.get("exp_avg:w1.scale"));
        assertEquals(DType.F16, states.get("exp_avg_sq:w1"));
        assertEquals(DType.F8_E4M3FN, states.get("exp_avg:b1"));
        assertTrue(!states.containsKey("codes:b1"), "biases have no codes: " + states);
    }

    @Test
    void parameters_of_a_checkpoint_are_what_its_codes_stand_for() throws IOException {
        run(parts("{engine: msamp}"), folder, RunOptions.defaults());
        Path checkpoint = new CheckpointFolder(folder).path(24);
        try (ModelFile parameters = ModelFile.open(checkpoint.resolve("parameters.safetensors"));
                ModelFile state = ModelFile.open(checkpoint.resolve("state.safetensors"))) {
            Tensor decoded = requireNonNull(parameters.model().tensors().get("w1"));
            Tensor codes = requireNonNull(state.model().tensors().get("codes:w1"));
            float scale =
                    requireNonNull(state.model().tensors().get("w1.scale")).toFloats()[0];
            assertEquals(0, Float.floatToIntBits(scale) & 0x7FFFFF, "a power of two: " + scale);
            for (int i = 0; i < 4096; i++) {
                float code = Float.float16ToFloat(codes.bytes().get(Tensor.I16_LE, i * 2L));
                assertEquals(code * scale, decoded.toFloats()[i]);
            }
        }
    }

    @Test
    void another_engine_is_refused_on_resume_unless_asked_for() throws IOException {
        RunOptions some = RunOptions.defaults().withMaxSteps(10);
        run(parts("{engine: msamp}"), folder, some);
        RunOptions more = RunOptions.defaults().resuming();
        InvalidOptionException e =
                assertThrows(InvalidOptionException.class, () -> run(parts("{engine: torchao}"), folder, more));
        assertEquals(
                "the run cannot resume: its states are kept by the engine msamp (opt_level: O2, masters: fp16, compat:"
                        + " none), not torchao (format: int8, bf16_stochastic_round: false)",
                e.what());
        assertEquals(
                "convert them with --set optimizer.states.convert=true, or restore the keys of optimizer.states",
                e.fix());
        RunEnd end = run(parts("{engine: torchao, convert: true}"), folder, more);
        assertEquals(RunEnd.Reason.COMPLETED, end.reason());
        Map<String, DType> states = types(folder, "state.safetensors");
        assertEquals(DType.U8, states.get("exp_avg:w1"));
        assertEquals(DType.F32, states.get("exp_avg:b1"));
        assertTrue(!states.containsKey("codes:w1") && !states.containsKey("exp_avg:b1.scale"), states.toString());
        assertTrue(losses(folder).getLast() < 0.4);
    }

    @ParameterizedTest
    @MethodSource("engines")
    void states_converted_from_F32_and_back_go_on_where_they_were(String states) throws IOException {
        run(parts(""), folder.resolve("f32"), RunOptions.defaults());
        Path changed = folder.resolve("changed");
        run(parts(""), changed, RunOptions.defaults().withMaxSteps(8));
        String convert = states.replace("}", ", convert: true}");
        run(parts(convert), changed, RunOptions.defaults().resuming().withMaxSteps(8));
        run(
                parts("{engine: fp32, convert: true}"),
                changed,
                RunOptions.defaults().resuming());
        List<Double> plain = losses(folder.resolve("f32"));
        List<Double> other = losses(changed);
        assertEquals(24, other.size());
        for (int i = 0; i < 24; i++) {
            assertEquals(plain.get(i), other.get(i), states.contains("int4") ? 0.1 : 0.02, "step " + (i + 1));
        }
    }

    @Test
    void averages_of_weights_kept_in_few_bits_are_resumed_to_the_same_bytes() throws IOException {
        assertPiecesAreTheWhole(
                parts("{engine: bf16, masters: bf16}", "averaging: {ema: {decay: 0.9}, swa: {start: 4, every: 3}}"));
    }

    @Test
    void guarded_runs_with_coded_states_are_resumed_to_the_same_bytes() throws IOException {
        assertPiecesAreTheWhole(parts(
                "{engine: te, master_weight_dtype: fp16, exp_avg_dtype: fp8, exp_avg_sq_dtype: fp16}",
                "guard: {spike: {window: 4, snapshot_every: 3, retries: 2, skip: 1}}"));
    }

    @Tag("kernels")
    @ParameterizedTest
    @ValueSource(
            strings = {
                "{engine: msamp}",
                "{engine: te, store_param_remainders: true, exp_avg_dtype: bf16, exp_avg_sq_dtype: bf16}",
            })
    void the_kernels_train_as_the_processor_does(String states) throws IOException {
        TrainingParts parts = parts(states, "precision: {mode: bf16}");
        try (Device cpu = CpuDevice.of(2);
                Device gpu = TestGpus.hostDevice();
                Trainer expected = Trainer.of(parts, cpu);
                Trainer actual = Trainer.of(parts, gpu)) {
            for (int step = 1; step <= 3; step++) {
                assertEquals(expected.step(step).loss(), actual.step(step).loss(), 2e-3, "step " + step);
            }
        }
    }

    @Test
    void a_plan_says_what_each_parameter_takes_and_which_moments_stay_in_F32() throws IOException {
        try (Device device = CpuDevice.of(1);
                Trainer plain = Trainer.of(parts(""), device);
                Trainer coded = Trainer.of(parts("{engine: torchao, bf16_stochastic_round: true}"), device)) {
            StatePlan f32 = plain.plan().states().orElseThrow();
            assertEquals(16, f32.each(f32.bytes()));
            RunPlan plan = coded.plan();
            StatePlan states = plan.states().orElseThrow();
            long others = 512 + 3 * 512 + 3;
            assertEquals(4096 + others, states.elements());
            assertEquals("torchao (format: int8, bf16_stochastic_round: true)", states.engine());
            assertEquals(2 * states.elements(), states.masters());
            assertEquals(4 * states.elements(), states.gradients());
            assertEquals(2 * (4096 + 4 * 4096 / 256) + 8 * others, states.moments());
            assertTrue(
                    plan.notes()
                            .contains("optimizer.states: moments of tensors with fewer than 4096 elements, or that"
                                    + " blocks do not divide, stay in F32: b1, w2, b2"),
                    plan.notes().toString());
        }
    }
}
