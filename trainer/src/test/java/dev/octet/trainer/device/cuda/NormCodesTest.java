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

/** A norm behind a Linear in FP8: backward makes the codes of what it passes on, and gives what single steps give. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("emulated")
class NormCodesTest {
    private static final int TOKENS = 48;
    private static final int INNER = 16;

    /** Tokens by a Linear to rows of {@code width}, a norm of them, a head. */
    private static GraphModel model(int rows, int width, String norm) {
        SplittableRandom random = new SplittableRandom(5);
        List<Node> nodes = List.of(
                Node.of("x", "Gather", "", List.of("table", "ids"), List.of("x")),
                linear("r", List.of("x", "wr", "r.bias")),
                Node.of(
                        "n",
                        norm,
                        "",
                        norm.startsWith("Layer")
                                ? List.of("r", "norm.weight", "norm.bias")
                                : List.of("r", "norm.weight"),
                        List.of("n")),
                linear("y", List.of("n", "wy")));
        List<Initializer> weights = new ArrayList<>();
        weights.add(weight(random, "table", TOKENS, INNER));
        weights.add(weight(random, "wr", width, INNER));
        weights.add(weight(random, "r.bias", width));
        weights.add(weight(random, "norm.weight", width));
        if (norm.startsWith("Layer")) {
            weights.add(weight(random, "norm.bias", width));
        }
        weights.add(weight(random, "wy", TOKENS, width));
        return GraphModel.of(
                Graph.of(
                        "g",
                        nodes,
                        weights,
                        List.of(new ValueInfo("ids", new TensorType(DType.I64, List.of(Dim.of(1), Dim.of(rows))))),
                        List.of(new ValueInfo(
                                "y", new TensorType(DType.F32, List.of(Dim.of(1), Dim.of(rows), Dim.of(TOKENS)))))),
                10,
                23);
    }

    private static Node linear(String name, List<String> inputs) {
        return Node.of(name, "Linear", Node.OCTET_DOMAIN, inputs, List.of(name), Attribute.of("transB", 1L));
    }

    private static Initializer weight(SplittableRandom random, String name, long... sides) {
        Shape shape = Shape.of(sides);
        float[] values = new float[Math.toIntExact(shape.elementCount())];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) (0.3 * random.nextGaussian());
        }
        return Initializer.of(Tensor.ofFloats(Arena.ofAuto(), name, shape, values));
    }

    /** Rows of a warp, in pieces of a tile or of two, and rows of a block, whose tiles are not full; too few of a block to keep a GPU busy; codes of which only some products are on FP8 units; unaligned rows. */
    @ParameterizedTest
    @CsvSource({
        "70, 64, LayerNormalization, fp8, 1",
        "70, 64, LayerNormalization, fp8 in fp32, 1",
        "70, 1024, RMSNormalization, fp8, 1",
        "9001, 64, LayerNormalization, fp8, 1",
        "4237, 1040, LayerNormalization, fp8, 1",
        "4200, 1040, LayerNormalization, fp8, 0",
        "70, 36, LayerNormalization, fp8, 1",
        "70, 38, LayerNormalization, fp8, 0",
    })
    void codes_of_a_gradient_are_those_of_its_cast(int rows, int width, String norm, String precision, int transposed) {
        GraphModel model = model(rows, width, norm);
        Parameters parameters = Parameters.of(model.graph());
        Set<String> names = new TreeSet<>();
        parameters.all().forEach(p -> names.add(p.name()));
        LossConfig config =
                new LossConfig(LossConfig.Type.CAUSAL_LM, Optional.of("y"), "labels", -100, Optional.empty());
        LossGraph loss = LossGraph.of(model, config, new OperandType(DType.I64, Shape.of(1, rows)));
        Program program = Autodiff.program(
                loss.model(), ProgramOptions.training(loss.loss(), names, names, FusionsTest.policy(precision)));
        Map<String, byte[]> alone = FusionsTest.run(program, parameters, TestGpus.host(), List.of(), null);
        FusionsTest.Counting gpu = new FusionsTest.Counting(TestGpus.host());
        Map<String, byte[]> together = FusionsTest.run(program, parameters, gpu, GpuFusions.ALL, null);
        assertEquals(alone.keySet(), together.keySet());
        alone.forEach((name, bytes) -> assertArrayEquals(bytes, requireNonNull(together.get(name)), name));
        assertEquals(
                transposed,
                gpu.launches.stream().filter("norm_backward_transposed"::equals).count(),
                gpu.launches.toString());
    }
}
