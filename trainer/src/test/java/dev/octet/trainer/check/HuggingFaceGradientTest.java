package dev.octet.trainer.check;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.TrainingGraph;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.Programs;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.loss.LossGraph;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Hugging Face checkpoints, from {@code config.json} to gradients: logits, loss and every gradient as transformers computes them. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class HuggingFaceGradientTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models/tiny-hf");
    private static final Arena ARENA = Arena.ofAuto();

    /** Models with positions that may look at nothing: what transformers computes there means nothing, and the loss leaves it out. */
    private static final Set<String> SOME_SEE_NOTHING =
            Set.of("qwen3", "qwen2-window", "llama4", "llama4-left", "deberta", "deberta-tokens");

    static List<String> names() throws IOException {
        try (Stream<Path> folders = Files.list(MODELS)) {
            return folders.map(f -> String.valueOf(f.getFileName())).sorted().toList();
        }
    }

    @ParameterizedTest
    @MethodSource("names")
    void the_cpu_computes_what_transformers_does(String name) throws IOException {
        try (Device cpu = CpuDevice.of(2)) {
            check(name, cpu);
        }
    }

    @ParameterizedTest
    @MethodSource("names")
    void the_kernels_compute_what_transformers_does(String name) throws IOException {
        try (Device kernels = TestGpus.hostDevice()) {
            check(name, kernels);
        }
    }

    @Tag("gpu")
    @ParameterizedTest
    @MethodSource("names")
    void the_gpu_computes_what_transformers_does(String name) throws IOException {
        try (Device gpu = TestGpus.realDevice()) {
            check(name, gpu);
        }
    }

    @ParameterizedTest
    @MethodSource("names")
    void the_reference_computes_what_transformers_does(String name) throws IOException {
        try (Device reference = new ReferenceDevice()) {
            check(name, reference);
        }
    }

    private static void check(String name, Device device) throws IOException {
        try (ModelSource source = ModelSource.open(MODELS.resolve(name));
                ModelFile file = ModelFile.open(MODELS.resolve(name).resolve("golden.safetensors"));
                Converter converter = Converter.of(source.model())) {
            Map<String, Tensor> tensors = new TreeMap<>(file.model().tensors());
            if (SOME_SEE_NOTHING.contains(name)) {
                tensors.remove("out.logits");
            }
            addTokenTypes(converter.canonical(), tensors);
            Golden golden = Golden.of(tensors, name);
            List<GoldenDifference> all =
                    gradientCheck(converter.canonical(), golden, loss(source)).run(device);
            assertEquals(golden.outputs().size() + golden.gradients().size(), all.size());
            for (GoldenDifference d : all) {
                assertTrue(d.error() <= (d.tensor().startsWith("out.") ? 1e-5 : 1e-4), d.toString());
            }
        }
    }

    /** transformers takes zeros where none are given. */
    private static void addTokenTypes(GraphModel model, Map<String, Tensor> tensors) {
        boolean wanted = model.graph().inputs().stream().anyMatch(i -> i.name().equals("token_type_ids"));
        if (wanted && !tensors.containsKey("in.token_type_ids")) {
            Shape shape = requireNonNull(tensors.get("in.input_ids")).shape();
            tensors.put(
                    "in.token_type_ids",
                    Tensor.ofLongs(ARENA, "in.token_type_ids", shape, new long[(int) shape.elementCount()]));
        }
    }

    private static Optional<LossConfig.Type> loss(ModelSource source) {
        String name = source.huggingFace().orElseThrow().modelClass();
        if (name.endsWith("ForCausalLM") || name.endsWith("LMHeadModel")) {
            return Optional.of(LossConfig.Type.CAUSAL_LM);
        }
        boolean answers = name.endsWith("QuestionAnswering"); // transformers' loss is of two outputs
        return name.contains("For") && !answers ? Optional.of(LossConfig.Type.CROSS_ENTROPY) : Optional.empty();
    }

    private static GradientCheck gradientCheck(GraphModel model, Golden golden, Optional<LossConfig.Type> loss) {
        Map<String, Shape> shapes = new TreeMap<>();
        golden.inputs().forEach((input, t) -> shapes.put(input, t.shape()));
        GraphModel concrete = TrainingGraph.of(model, Programs.sizes(model.graph(), shapes), new PassLog());
        if (loss.isEmpty()) {
            return new GradientCheck(concrete, null, golden, Map.of());
        }
        Tensor labels = requireNonNull(golden.inputs().get("labels"));
        LossConfig config = new LossConfig(loss.get(), Optional.empty(), "labels", -100, Optional.empty());
        LossGraph graph = LossGraph.of(concrete, config, new OperandType(labels.dtype(), labels.shape()));
        return new GradientCheck(graph.model(), graph.loss(), golden, Map.of());
    }
}
