package dev.octet.trainer.device.cuda;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

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
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.loss.LossGraph;
import dev.octet.trainer.op.GpuFusions;
import dev.octet.trainer.program.Program;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Which steps between the Linears of an MLP run together, and that what they give is what they give one by one. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("emulated")
class GatedFusionTest {
    private static final int WIDTH = 32;

    /** Nodes between the Linears g and u and the Linear of p; each as {@code type in in > out}. */
    private static GraphModel model(String between) {
        SplittableRandom random = new SplittableRandom(3);
        List<Node> nodes = new ArrayList<>();
        nodes.add(Node.of("x", "Gather", "", List.of("table", "ids"), List.of("x")));
        nodes.add(linear("g", "x", "wg"));
        nodes.add(linear("u", "x", "wu"));
        for (String node : between.split(", ", -1)) {
            String[] words = node.split(" ", -1);
            String out = words[words.length - 1];
            nodes.add(Node.of(out, words[0], "", List.of(words).subList(1, words.length - 2), List.of(out)));
        }
        nodes.add(linear("y", "p", "wy"));
        List<Initializer> weights = new ArrayList<>();
        for (String name : List.of("table", "wg", "wu", "wy")) {
            float[] values = new float[48 * (name.equals("wy") ? 48 : WIDTH)];
            for (int i = 0; i < values.length; i++) {
                values[i] = (float) (0.3 * random.nextGaussian());
            }
            weights.add(Initializer.of(
                    Tensor.ofFloats(Arena.ofAuto(), name, Shape.of(48, name.equals("wy") ? 48 : WIDTH), values)));
        }
        return GraphModel.of(
                Graph.of(
                        "g",
                        nodes,
                        weights,
                        List.of(new ValueInfo("ids", new TensorType(DType.I64, List.of(Dim.of(1), Dim.of(16))))),
                        List.of(new ValueInfo(
                                "y", new TensorType(DType.F32, List.of(Dim.of(1), Dim.of(16), Dim.of(48)))))),
                10,
                23);
    }

    private static Node linear(String name, String x, String w) {
        return Node.of(name, "Linear", Node.OCTET_DOMAIN, List.of(x, w), List.of(name), Attribute.of("transB", 1L));
    }

    private static final String SILU = "Sigmoid g > s, Mul g s > a, ";

    /** Of the first, all; where something is added to the activation or reads it, what is left of them; a gate without a product is no gated MLP. */
    @ParameterizedTest
    @CsvSource(
            delimiter = ';',
            value = {
                SILU + "Mul a u > p; bf16; 1; 1; 0",
                SILU + "Mul u a > p; fp8; 1; 1; 0",
                "Sigmoid g > s, Mul s g > a, Mul u a > p; bf16; 1; 1; 0",
                "Gelu g > a, Mul a u > p; bf16; 1; 1; 0",
                SILU + "Add a u > c, Mul c u > p; bf16; 0; 0; 1",
                SILU + "Mul a u > c, Add c a > p; bf16; 1; 0; 1",
                SILU + "Mul a g > p; bf16; 1; 0; 1",
                SILU + "Mul a a > p; bf16; 0; 0; 1",
                "Sigmoid u > s, Mul g s > a, Mul a u > p; bf16; 0; 0; 1",
                SILU + "Add a u > p; bf16; 0; 0; 1"
            })
    void steps_between_linears_give_the_same_bits_together(
            String between, String precision, int forward, int backward, int sigmoids) {
        GraphModel model = model(between);
        Set<String> names = new TreeSet<>(Set.of("table", "wg", "wu", "wy"));
        LossConfig config =
                new LossConfig(LossConfig.Type.CAUSAL_LM, Optional.of("y"), "labels", -100, Optional.empty());
        LossGraph loss = LossGraph.of(model, config, new OperandType(DType.I64, Shape.of(1, 16)));
        Program program = Autodiff.program(
                loss.model(), ProgramOptions.training(loss.loss(), names, names, FusionsTest.policy(precision)));
        Parameters parameters = Parameters.of(model.graph());
        Map<String, byte[]> alone = FusionsTest.run(program, parameters, TestGpus.host(), List.of(), null);
        FusionsTest.Counting gpu = new FusionsTest.Counting(TestGpus.host());
        Map<String, byte[]> together = FusionsTest.run(program, parameters, gpu, GpuFusions.ALL, null);
        assertEquals(alone.keySet(), together.keySet());
        alone.forEach((name, bytes) -> assertArrayEquals(bytes, requireNonNull(together.get(name)), name));
        assertEquals(forward, count(gpu, "gated_(forward|transpose|amax)_.*"));
        assertEquals(backward, count(gpu, "gated_(backward|gradient_transpose)_.*"));
        assertEquals(sigmoids, count(gpu, "unary_backward_.*"));
    }

    private static long count(FusionsTest.Counting gpu, String names) {
        return gpu.launches.stream().filter(l -> l.matches(names)).count();
    }
}
