package dev.octet.trainer.loss;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LossGraphTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models", "tiny-hf");

    private static ValueInfo info(String name, Tensor like) {
        List<Dim> dims = new ArrayList<>();
        for (long d : like.shape().toArray()) {
            dims.add(Dim.of(d));
        }
        return new ValueInfo(name, new TensorType(like.dtype(), dims));
    }

    /** A graph that hands its input out as {@code logits}. */
    private static GraphModel passing(Tensor logits) {
        Node node = Node.of("pass", "Identity", List.of("x"), List.of("logits"));
        return GraphModel.of(
                Graph.of("g", List.of(node), List.of(), List.of(info("x", logits)), List.of(info("logits", logits))),
                10,
                21);
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
            LossGraph graph = LossGraph.of(passing(logits), config, new OperandType(labels.dtype(), labels.shape()));
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
}
