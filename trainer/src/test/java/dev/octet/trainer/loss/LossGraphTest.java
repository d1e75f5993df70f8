package dev.octet.trainer.loss;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.ModelFile;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.config.LossConfig.Distillation;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LossGraphTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models", "tiny-hf");

    private static final Path SMOOTHING =
            Path.of(System.getProperty("octet.testdata"), "golden", "training", "label_smoothing.safetensors");

    private static final Path DISTILLATION =
            Path.of(System.getProperty("octet.testdata"), "golden", "training", "distillation.safetensors");
    private static final Pattern CASE =
            Pattern.compile("(?<type>.*)\\.w(?<weight>\\d+)\\.t(?<temperature>[\\d.]+)\\.(?<counted>.*)");

    private static ValueInfo info(String name, Tensor like) {
        List<Dim> dims = new ArrayList<>();
        for (long d : like.shape().toArray()) {
            dims.add(Dim.of(d));
        }
        return new ValueInfo(name, new TensorType(like.dtype(), dims));
    }

    /** A graph that hands its input out as {@code logits}. */
    private static GraphModel passing(Tensor logits, @Nullable Tensor mask) {
        Node node = Node.of("pass", "Identity", List.of("x"), List.of("logits"));
        List<ValueInfo> inputs = new ArrayList<>(List.of(info("x", logits)));
        if (mask != null) {
            inputs.add(info("attention_mask", mask));
        }
        return GraphModel.of(Graph.of("g", List.of(node), List.of(), inputs, List.of(info("logits", logits))), 10, 21);
    }

    /** Logits, labels and loss as the models of transformers give them. */
    @ParameterizedTest
    @CsvSource({"gpt2, CAUSAL_LM", "llama, CAUSAL_LM", "vit, CROSS_ENTROPY"})
    void the_loss_is_what_transformers_computes(String model, LossConfig.Type type) throws IOException {
        try (ModelFile golden = ModelFile.open(MODELS.resolve(model).resolve("golden.safetensors"));
                Device device = CpuDevice.of(1);
                Arena arena = Arena.ofConfined()) {
            Tensor logits = golden.model().tensor("out.logits");
            Tensor labels = golden.model().tensor("in.labels");
            LossConfig config = new LossConfig(type, Optional.empty(), "labels", -100, Optional.empty());
            LossGraph graph =
                    LossGraph.of(passing(logits, null), config, new OperandType(labels.dtype(), labels.shape()));
            Program program = Autodiff.program(
                    graph.model(), ProgramOptions.forward(List.of(graph.loss()), List.of(), PrecisionPolicy.FP32));
            try (Memory memory = device.allocate(program.lasting());
                    Executable run = device.load(program, memory)) {
                run.feed(requireNonNull(program.inputs().get("x")), logits.bytes());
                run.feed(requireNonNull(program.inputs().get("labels")), labels.bytes());
                run.run(Phase.FORWARD);
                MemorySegment loss = arena.allocate(Float.BYTES);
                run.read(requireNonNull(program.outputs().get(graph.loss())), loss);
                float expected = golden.model().tensor("out.loss").bytes().get(Tensor.F32_LE, 0);
                assertEquals(expected, loss.get(Tensor.F32_LE, 0), 2e-6 * expected);
            }
        }
    }

    /** What a case of {@code make/distillation.py} asks for. */
    private static LossConfig config(String name) {
        Matcher m = CASE.matcher(name);
        assertTrue(m.matches(), name);
        double weight = Integer.parseInt(m.group("weight")) / 100.0;
        Distillation by = new Distillation(
                Path.of("t.onnx"),
                weight,
                Double.parseDouble(m.group("temperature")),
                m.group("counted").equals("labels"));
        LossConfig.Type type =
                LossConfig.Type.valueOf(m.group("type").toUpperCase(Locale.ROOT).replace('-', '_'));
        boolean classes = type == LossConfig.Type.CAUSAL_LM || type == LossConfig.Type.CROSS_ENTROPY;
        return new LossConfig(type, Optional.empty(), classes ? "labels" : "targets", -100, Optional.of(by));
    }

    static List<String> distillations() throws IOException {
        try (ModelFile golden = ModelFile.open(DISTILLATION)) {
            return golden.model().tensors().keySet().stream()
                    .filter(name -> name.endsWith(".loss"))
                    .map(name -> name.substring(0, name.length() - ".loss".length()))
                    .toList();
        }
    }

    @Test
    void the_goldens_have_every_kind_of_loss() throws IOException {
        assertEquals(22, distillations().size());
    }

    /** Loss, its parts and its gradient, for each way to count positions. */
    @ParameterizedTest
    @MethodSource("distillations")
    void distances_to_a_teacher_are_what_torch_computes(String name) throws IOException {
        try (ModelFile file = ModelFile.open(DISTILLATION);
                Device device = CpuDevice.of(2)) {
            Map<String, Tensor> golden = file.model().tensors();
            LossConfig config = config(name);
            Map<String, Tensor> fed = new HashMap<>();
            fed.put("x", requireNonNull(golden.get("student")));
            fed.put(LossGraph.TEACHER, requireNonNull(golden.get("teacher")));
            if (config.readsLabels()) {
                fed.put(config.labels(), requireNonNull(golden.get(config.labels())));
            }
            boolean masked = name.endsWith(".mask");
            if (masked) {
                fed.put("attention_mask", requireNonNull(golden.get("attention_mask")));
            }
            requireGolden(golden, name, config, fed, device);
        }
    }

    static List<String> smoothings() {
        return List.of(
                "cross-entropy.s10",
                "cross-entropy.s50",
                "cross-entropy.s100",
                "causal-lm.s10",
                "causal-lm.s50",
                "causal-lm.s100");
    }

    /** Loss and gradient of transformers' LabelSmoother. */
    @ParameterizedTest
    @MethodSource("smoothings")
    void smoothed_labels_are_what_transformers_computes(String name) throws IOException {
        try (ModelFile file = ModelFile.open(SMOOTHING);
                Device device = CpuDevice.of(2)) {
            Map<String, Tensor> golden = file.model().tensors();
            String[] parts = name.split("\\.s", -1);
            LossConfig config = new LossConfig(
                    parts[0].equals("causal-lm") ? LossConfig.Type.CAUSAL_LM : LossConfig.Type.CROSS_ENTROPY,
                    Optional.empty(),
                    "labels",
                    -100,
                    Optional.empty(),
                    LossConfig.Preference.DEFAULT,
                    OptionalDouble.of(Integer.parseInt(parts[1]) / 100.0),
                    Optional.empty());
            Map<String, Tensor> fed =
                    Map.of("x", requireNonNull(golden.get("scores")), "labels", requireNonNull(golden.get("labels")));
            requireGolden(golden, name, config, fed, device);
        }
    }

    private static void requireGolden(
            Map<String, Tensor> golden, String name, LossConfig config, Map<String, Tensor> fed, Device device) {
        GraphModel model = passing(requireNonNull(fed.get("x")), fed.get("attention_mask"));
        Map<String, OperandType> types = new HashMap<>();
        fed.forEach((k, t) -> types.put(k, new OperandType(t.dtype(), t.shape())));
        LossGraph graph = LossGraph.of(model, config, types);
        Program program = Autodiff.program(
                graph.model(),
                ProgramOptions.training(graph.loss(), List.of("x"), List.of(), PrecisionPolicy.FP32)
                        .withOutputs(graph.parts().values()));
        try (Memory memory = device.allocate(program.lasting());
                Executable run = device.load(program, memory)) {
            program.inputs()
                    .forEach((k, v) -> run.feed(v, requireNonNull(fed.get(k), k).bytes()));
            run.run(Phase.FORWARD);
            requireNear(golden.get(name + ".loss"), read(run, program.outputs().get(Program.LOSS)));
            for (Map.Entry<String, String> part : graph.parts().entrySet()) {
                requireNear(
                        golden.get(name + "." + part.getKey()),
                        read(run, program.outputs().get(part.getValue())));
            }
            assertEquals(
                    golden.containsKey(name + ".task") ? 2 : 0, graph.parts().size());
            run.run(Phase.BACKWARD);
            requireNear(
                    golden.get(name + ".gradient"),
                    read(run, program.gradients().get("x")));
        }
    }

    private static float[] read(Executable run, @Nullable Value value) {
        requireNonNull(value);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocate(value.type().byteSize(), 64);
            run.read(value, bytes);
            return bytes.toArray(Tensor.F32_LE);
        }
    }

    /** Sums of at most 105 terms in F32: some units in the last place of the largest. */
    private static void requireNear(@Nullable Tensor expected, float[] found) {
        float[] wanted = requireNonNull(expected).toFloats();
        float largest = 0;
        for (float x : wanted) {
            largest = Math.max(largest, Math.abs(x));
        }
        assertArrayEquals(wanted, found, 2e-6f * largest);
    }

    private static Map<String, OperandType> fed(long... teacher) {
        return Map.of(
                "labels",
                new OperandType(DType.I64, Shape.of(3, 5)),
                LossGraph.TEACHER,
                new OperandType(DType.F32, Shape.of(teacher)));
    }

    @Test
    void a_teacher_of_other_classes_is_refused_by_name() {
        Tensor logits = Tensor.ofFloats(Arena.ofAuto(), "x", Shape.of(3, 5, 2), new float[30]);
        InvalidDataException e = assertThrows(
                InvalidDataException.class,
                () -> LossGraph.of(passing(logits, null), config("causal-lm.w100.t1.labels"), fed(3, 5, 4)));
        assertTrue(e.what().contains("the teacher gives F32 [3, 5, 4]"), e.what());
        assertTrue(e.what().contains("is F32 [3, 5, 2]"), e.what());
        assertTrue(e.where().contains("t.onnx"), e.where());
    }

    @Test
    void labels_that_are_wanted_and_not_there_are_named() {
        Tensor logits = Tensor.ofFloats(Arena.ofAuto(), "x", Shape.of(3, 5, 2), new float[30]);
        InvalidDataException e = assertThrows(
                InvalidDataException.class,
                () -> LossGraph.of(passing(logits, null), config("causal-lm.w60.t1.labels"), Map.of()));
        assertEquals("the labels 'labels' are missing", e.what());
    }
}
