package dev.octet.trainer.activation;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.op.dropout.Dropout;
import dev.octet.trainer.optimizer.Optimizer;
import dev.octet.trainer.precision.LossScaling;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.step.GraphSource;
import dev.octet.trainer.step.TrainingSession;
import dev.octet.trainer.step.TrainingSetup;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.TreeMap;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RepeatedDropoutTest {
    private static final int ROWS = 8;
    private static final int WIDTH = 16;

    private static Tensor normal(String name, int seed, long... dims) {
        SplittableRandom random = new SplittableRandom(seed);
        Shape shape = Shape.of(dims);
        float[] x = new float[(int) shape.elementCount()];
        for (int i = 0; i < x.length; i++) {
            x[i] = (float) (random.nextGaussian() / 4);
        }
        return Tensor.ofFloats(Arena.ofAuto(), name, shape, x);
    }

    private static GraphModel model() {
        List<Node> nodes = new ArrayList<>();
        List<Tensor> weights = new ArrayList<>();
        String h = "x";
        for (int i = 0; i < 3; i++) {
            String b = "layers." + i + ".";
            weights.add(normal(b + "weight", i, WIDTH, WIDTH));
            nodes.add(Node.of(b + "linear", "Linear", Node.OCTET_DOMAIN, List.of(h, b + "weight"), List.of(b + "y")));
            nodes.add(Node.of(
                    b + "dropout",
                    "Dropout",
                    Node.OCTET_DOMAIN,
                    List.of(b + "y"),
                    List.of(b + "kept"),
                    Attribute.of(Dropout.RATIO, 0.3f),
                    Attribute.of(Dropout.SEED, 7 + i)));
            nodes.add(Node.of(b + "act", "Gelu", List.of(b + "kept"), List.of(b + "out")));
            h = b + "out";
        }
        weights.add(normal("head", 9, WIDTH, 4));
        nodes.add(Node.of("head", "Linear", Node.OCTET_DOMAIN, List.of(h, "head"), List.of("logits")));
        Graph graph = Graph.of(
                "dropout",
                nodes,
                weights.stream().map(Initializer::of).toList(),
                List.of(new ValueInfo("x", new TensorType(DType.F32, List.of(Dim.of(ROWS), Dim.of(WIDTH))))),
                List.of(new ValueInfo("logits", new TensorType(DType.F32, List.of(Dim.of(ROWS), Dim.of(4))))));
        return GraphModel.of(graph, 10, 21);
    }

    private static Map<String, float[]> weights(Recompute recompute) {
        GraphModel model = model();
        Parameters parameters = Parameters.of(model.graph());
        LossConfig loss =
                new LossConfig(LossConfig.Type.CROSS_ENTROPY, Optional.empty(), "labels", -100, Optional.empty());
        TrainingSetup setup = new TrainingSetup(
                        GraphSource.fixed(model),
                        parameters,
                        parameters.names(),
                        loss,
                        PrecisionPolicy.FP32,
                        LossScaling.Fixed.NONE,
                        Optimizer.Adam.ADAMW,
                        List.of(),
                        Double.POSITIVE_INFINITY,
                        List.of())
                .withActivations(new ActivationSettings(recompute, Kept.AS_THEY_ARE));
        Tensor labels = Tensor.ofLongs(Arena.ofAuto(), "labels", Shape.of(ROWS), 0, 1, 2, 3, 0, 1, 2, 3);
        try (Device device = CpuDevice.of(1);
                TrainingSession session = new TrainingSession(setup, device);
                Arena arena = Arena.ofConfined()) {
            MicroBatch one =
                    new MicroBatch(0, List.of(0L), Map.of("x", normal("x", 20, ROWS, WIDTH), "labels", labels));
            MicroBatch two =
                    new MicroBatch(1, List.of(1L), Map.of("x", normal("x", 21, ROWS, WIDTH), "labels", labels));
            for (int i = 0; i < 3; i++) {
                session.step(List.of(one, two), 0.01, null, false);
            }
            boolean repeatsDropout = session.program(one).steps().stream()
                    .filter(Step::repeats)
                    .anyMatch(s -> s.op() instanceof Dropout);
            assertEquals(!recompute.equals(Recompute.NONE), repeatsDropout);
            Map<String, float[]> all = new TreeMap<>();
            session.parameters(arena).forEach((name, t) -> all.put(name, t.toFloats()));
            return all;
        }
    }

    @Test
    void the_same_elements_are_dropped_again() {
        Map<String, float[]> expected = weights(Recompute.NONE);
        assertTrue(expected.size() > 3);
        weights(new Recompute.Layers(1)).forEach((name, w) -> assertArrayEquals(expected.get(name), w, name));
        weights(new Recompute.Layers(2)).forEach((name, w) -> assertArrayEquals(expected.get(name), w, name));
    }
}
