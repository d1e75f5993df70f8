package dev.octet.converter.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.data.Batch;
import dev.octet.converter.lower.Lowering;
import dev.octet.converter.lower.OnnxTarget;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.runtime.OnnxRuntime;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.converter.runtime.SessionSettings;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.onnx.OnnxWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.Quantizer;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Convolutions and products of attention in INT8, in ONNX Runtime with default options, against the formulas in double precision. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class DynamicProductsTest {
    private static final int IN = 3;
    private static final int OUT = 4;
    private static final int SIDE = 6;
    private static final int TOKENS = 5;
    private static final int WIDTH = 8;
    private static final Map<LayerKind, QuantType> BOTH =
            Map.of(LayerKind.CONV, QuantType.INT8, LayerKind.ATTENTION, QuantType.INT8);

    private final Arena arena = Arena.ofShared();
    private final SplittableRandom random = new SplittableRandom(3);

    @TempDir
    Path folder;

    @AfterEach
    void close() {
        arena.close();
    }

    private float[] normal(int n) {
        float[] values = new float[n];
        for (int i = 0; i < n; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return values;
    }

    private static ValueInfo value(String name, int... dims) {
        List<Dim> all = new ArrayList<>();
        for (int d : dims) {
            all.add(Dim.of(d));
        }
        return new ValueInfo(name, new TensorType(DType.F32, all));
    }

    private GraphModel quantised(Graph graph, List<Pattern> keep) {
        GraphModel model = GraphModel.of(graph, 10, 21);
        Plan plan = Planner.plan(graph, Recipes.INT8_DYNAMIC, keep, BOTH);
        PlanRewrite.Result result =
                PlanRewrite.apply(model, plan, Map.of(), new RoundToNearest(Quantizer.sequential(), arena), arena);
        return Lowering.lower(result.model(), OnnxTarget.ONNXRUNTIME, arena, new PassLog());
    }

    private float[] run(GraphModel model, Map<String, Tensor> inputs) throws IOException {
        Path file = folder.resolve("model.onnx");
        OnnxWriter.write(model, file);
        try (OnnxRuntimeSession session = OnnxRuntime.open(file, SessionSettings.defaults());
                OnnxRuntimeSession.Outputs out = session.run(new Batch(0, 1, inputs))) {
            return out.read("y").toFloats();
        }
    }

    /** Values as DynamicQuantizeLinear rounds them: U8, a range that includes 0. */
    private static double[] rounded(float[] x) {
        float least = 0;
        float most = 0;
        for (float v : x) {
            least = Math.min(least, v);
            most = Math.max(most, v);
        }
        float scale = (most - least) / 255;
        int zero = (int) Math.rint(-least / scale);
        double[] values = new double[x.length];
        for (int i = 0; i < x.length; i++) {
            values[i] = (Math.clamp(Math.rint(x[i] / scale) + zero, 0, 255) - zero) * scale;
        }
        return values;
    }

    /** A weight [OUT, ..] rounded with amax / 127 of each output channel. */
    private static double[] roundedByChannel(float[] w) {
        double[] values = new double[w.length];
        int each = w.length / OUT;
        for (int o = 0; o < OUT; o++) {
            float amax = 0;
            for (int i = 0; i < each; i++) {
                amax = Math.max(amax, Math.abs(w[o * each + i]));
            }
            float scale = amax / 127;
            for (int i = 0; i < each; i++) {
                values[o * each + i] = Math.rint(w[o * each + i] / scale) * scale;
            }
        }
        return values;
    }

    private Graph convolution(float[] w, float[] bias) {
        return Graph.of(
                "conv",
                List.of(Node.of(
                        "c",
                        "Conv",
                        "",
                        List.of("x", "c.weight", "c.bias"),
                        List.of("y"),
                        Attribute.of("pads", List.of(1L, 1L, 1L, 1L)),
                        Attribute.of("strides", List.of(2L, 2L)))),
                List.of(
                        Initializer.of(Tensor.ofFloats(arena, "c.weight", Shape.of(OUT, IN, 3, 3), w)),
                        Initializer.of(Tensor.ofFloats(arena, "c.bias", Shape.of(OUT), bias))),
                List.of(value("x", 1, IN, SIDE, SIDE)),
                List.of(value("y", 1, OUT, SIDE / 2, SIDE / 2)));
    }

    @Test
    void a_convolution_gives_what_integers_of_each_channel_give() throws Exception {
        float[] w = normal(OUT * IN * 9);
        float[] bias = normal(OUT);
        float[] x = normal(IN * SIDE * SIDE);
        GraphModel model = quantised(convolution(w, bias), List.of());
        assertTrue(model.graph().nodes().stream().anyMatch(n -> n.is("ConvInteger")));
        float[] y = run(model, Map.of("x", Tensor.ofFloats(arena, "x", Shape.of(1, IN, SIDE, SIDE), x)));
        double[] xs = rounded(x);
        double[] ws = roundedByChannel(w);
        int side = SIDE / 2;
        for (int at = 0; at < y.length; at++) {
            int o = at / (side * side);
            double sum = bias[o];
            for (int i = 0; i < IN * 9; i++) {
                int row = at / side % side * 2 - 1 + i / 3 % 3;
                int column = at % side * 2 - 1 + i % 3;
                if (row >= 0 && row < SIDE && column >= 0 && column < SIDE) {
                    sum += ws[o * IN * 9 + i] * xs[(i / 9 * SIDE + row) * SIDE + column];
                }
            }
            assertEquals(sum, y[at], 1e-4, "element " + at);
        }
    }

    private Graph attention() {
        return Graph.of(
                "attention",
                List.of(
                        Node.of("relu", "Identity", List.of("a"), List.of("q")),
                        Node.of(
                                "t",
                                "Transpose",
                                "",
                                List.of("b"),
                                List.of("k"),
                                Attribute.of("perm", List.of(0L, 2L, 1L))),
                        Node.of("scores", "MatMul", List.of("q", "k"), List.of("s")),
                        Node.of("scale", "Mul", List.of("s", "third"), List.of("m")),
                        Node.of("softmax", "Softmax", "", List.of("m"), List.of("p"), Attribute.of("axis", -1)),
                        Node.of("v", "Identity", List.of("b"), List.of("values")),
                        Node.of("mix", "MatMul", List.of("p", "values"), List.of("y"))),
                List.of(Initializer.of(Tensor.ofFloats(arena, "third", Shape.SCALAR, 1 / 3f))),
                List.of(value("a", 1, TOKENS, WIDTH), value("b", 1, TOKENS, WIDTH)),
                List.of(value("y", 1, TOKENS, WIDTH)));
    }

    private static double[] product(double[] a, double[] b, int rows, int inner, int columns) {
        double[] y = new double[rows * columns];
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < columns; c++) {
                for (int k = 0; k < inner; k++) {
                    y[r * columns + c] += a[r * inner + k] * b[k * columns + c];
                }
            }
        }
        return y;
    }

    @Test
    void both_products_of_attention_give_what_integers_of_each_run_give() throws Exception {
        float[] a = normal(TOKENS * WIDTH);
        float[] b = normal(TOKENS * WIDTH);
        GraphModel model = quantised(attention(), List.of());
        assertEquals(
                2,
                model.graph().nodes().stream()
                        .filter(n -> n.is("MatMulInteger"))
                        .count());
        Shape shape = Shape.of(1, TOKENS, WIDTH);
        float[] y = run(
                model, Map.of("a", Tensor.ofFloats(arena, "a", shape, a), "b", Tensor.ofFloats(arena, "b", shape, b)));
        double[] keys = rounded(b);
        double[] turned = new double[keys.length];
        for (int i = 0; i < keys.length; i++) {
            turned[i % WIDTH * TOKENS + i / WIDTH] = keys[i];
        }
        double[] scores = product(rounded(a), turned, TOKENS, WIDTH, TOKENS);
        float[] p = new float[scores.length];
        for (int r = 0; r < TOKENS; r++) {
            double sum = 0;
            for (int c = 0; c < TOKENS; c++) {
                sum += Math.exp(scores[r * TOKENS + c] / 3);
            }
            for (int c = 0; c < TOKENS; c++) {
                p[r * TOKENS + c] = (float) (Math.exp(scores[r * TOKENS + c] / 3) / sum);
            }
        }
        double[] want = product(rounded(p), keys, TOKENS, TOKENS, WIDTH);
        for (int i = 0; i < y.length; i++) {
            assertEquals(want[i], y[i], 1e-4, "element " + i);
        }
    }

    @Test
    void a_value_that_a_product_and_a_convolution_read_is_rounded_once() throws Exception {
        GraphEdit edit = GraphEdit.of(attention());
        edit.nodes().stream()
                .filter(n -> n.is("MatMul") && n.input(1).equals("values"))
                .toList()
                .forEach(n -> edit.replace(n, n.withInputs(List.of(n.input(0), "b"))));
        edit.append(Node.of("c", "Conv", List.of("b", "c.weight"), List.of("z")));
        edit.putInitializer(
                Initializer.of(Tensor.ofFloats(arena, "c.weight", Shape.of(OUT, TOKENS, 1), normal(OUT * TOKENS))));
        List<ValueInfo> outputs = new ArrayList<>(edit.outputs());
        outputs.add(value("z", 1, OUT, WIDTH));
        edit.setOutputs(outputs);
        GraphModel model = quantised(edit.build(), List.of());
        assertTrue(model.graph().nodes().stream().anyMatch(n -> n.is("ConvInteger")));
        assertEquals(
                1,
                model.graph().nodes().stream()
                        .filter(n -> n.is("DynamicQuantizeLinear") && n.input(0).equals("b"))
                        .count());
        Shape shape = Shape.of(1, TOKENS, WIDTH);
        float[] y = run(
                model,
                Map.of(
                        "a", Tensor.ofFloats(arena, "a", shape, normal(TOKENS * WIDTH)),
                        "b", Tensor.ofFloats(arena, "b", shape, normal(TOKENS * WIDTH))));
        assertEquals(TOKENS * WIDTH, y.length);
    }

    @Test
    void they_stay_in_floats_unless_asked_for_and_where_a_pattern_keeps_them() {
        Graph conv = convolution(normal(OUT * IN * 9), normal(OUT));
        assertTrue(
                Planner.plan(conv, Recipes.INT8_DYNAMIC, List.of()).converted().isEmpty());
        assertTrue(Planner.plan(attention(), Recipes.INT8_DYNAMIC, List.of())
                .decisions()
                .isEmpty());
        Plan kept = Planner.plan(attention(), Recipes.INT8_DYNAMIC, List.of(Pattern.compile("mix")), BOTH);
        assertEquals("mix", kept.kept().getFirst().node());
        assertEquals("scores", kept.converted().getFirst().node());
    }
}
