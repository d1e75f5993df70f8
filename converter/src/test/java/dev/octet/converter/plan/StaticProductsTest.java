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
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.Quantizer;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SplittableRandom;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Products of attention in 8-bit floats by given scales, in ONNX Runtime with default options, against the formula in double precision. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class StaticProductsTest {
    private static final int TOKENS = 5;
    private static final int WIDTH = 8;
    private static final Map<LayerKind, QuantType> FP8 = Map.of(LayerKind.ATTENTION, QuantType.E4M3FN);

    private final Arena arena = Arena.ofShared();
    private final SplittableRandom random = new SplittableRandom(3);

    @TempDir
    Path folder;

    @AfterEach
    void close() {
        arena.close();
    }

    /** How exporters write attention; each gives the probabilities of {@code softmax(q k / 3 + mask)}. */
    enum Spelling {
        /** Scores are multiplied. */
        MULTIPLIED,
        /** TorchScript's BERT: scores are divided, then a mask is added. */
        DIVIDED_AND_ADDED,
        /** OpenAI's GPT: a mask is subtracted. */
        SUBTRACTED,
        /** DistilBERT and GPT-2: masked scores are replaced. */
        SELECTED,
        /** torch's scaled_dot_product_attention: both operands are scaled, a guard against rows without a token follows. */
        SCALED_OPERANDS,
        /** Probabilities pass a Dropout. */
        DROPPED;

        boolean masks() {
            return this == DIVIDED_AND_ADDED || this == SUBTRACTED || this == SELECTED;
        }
    }

    private static ValueInfo value(String name, DType type) {
        return new ValueInfo(name, new TensorType(type, List.of(Dim.of(1), Dim.of(TOKENS), Dim.of(WIDTH))));
    }

    private Graph graph(Spelling spelling) {
        List<Node> nodes = new ArrayList<>(List.of(
                Node.of("q", "Identity", List.of("a"), List.of("queries")),
                Node.of("k", "Transpose", "", List.of("b"), List.of("keys"), Attribute.of("perm", List.of(0L, 2L, 1L))),
                Node.of("v", "Identity", List.of("b"), List.of("values"))));
        boolean scaled = spelling == Spelling.SCALED_OPERANDS;
        if (scaled) {
            nodes.add(Node.of("scale_q", "Mul", List.of("queries", "root"), List.of("scaled_queries")));
            nodes.add(Node.of("scale_k", "Mul", List.of("keys", "root"), List.of("scaled_keys")));
        }
        nodes.add(Node.of(
                "scores",
                "MatMul",
                scaled ? List.of("scaled_queries", "scaled_keys") : List.of("queries", "keys"),
                List.of("s")));
        switch (spelling) {
            case MULTIPLIED, DROPPED -> nodes.add(Node.of("scale", "Mul", List.of("s", "third"), List.of("m")));
            case DIVIDED_AND_ADDED -> {
                nodes.add(Node.of("scale", "Div", List.of("s", "three"), List.of("d")));
                nodes.add(Node.of("mask", "Add", List.of("d", "low"), List.of("m")));
            }
            case SUBTRACTED -> {
                nodes.add(Node.of("scale", "Mul", List.of("s", "third"), List.of("d")));
                nodes.add(Node.of("mask", "Sub", List.of("d", "high"), List.of("m")));
            }
            case SELECTED -> {
                nodes.add(Node.of("scale", "Div", List.of("s", "three"), List.of("d")));
                nodes.add(Node.of("mask", "Where", List.of("seen", "d", "lowest"), List.of("m")));
            }
            case SCALED_OPERANDS -> nodes.add(Node.of("same", "Identity", List.of("s"), List.of("m")));
        }
        nodes.add(Node.of("softmax", "Softmax", "", List.of("m"), List.of("p"), Attribute.of("axis", -1)));
        String probabilities = "p";
        if (scaled) {
            nodes.add(Node.of("nan", "IsNaN", List.of("p"), List.of("nothing")));
            nodes.add(Node.of("guard", "Where", List.of("nothing", "zero", "p"), List.of("guarded")));
            probabilities = "guarded";
        } else if (spelling == Spelling.DROPPED) {
            nodes.add(Node.of("drop", "Dropout", List.of("p"), List.of("kept")));
            probabilities = "kept";
        }
        nodes.add(Node.of("mix", "MatMul", List.of(probabilities, "values"), List.of("y")));
        float[] low = new float[TOKENS];
        float[] high = new float[TOKENS];
        low[TOKENS - 1] = -1e4f;
        high[TOKENS - 1] = 1e4f;
        Tensor seen = Tensor.allocate(arena, new TensorSpec("seen", DType.BOOL, Shape.of(TOKENS)));
        for (int i = 0; i < TOKENS - 1; i++) {
            seen.bytes().set(ValueLayout.JAVA_BYTE, i, (byte) 1);
        }
        return Graph.of(
                "attention",
                nodes,
                List.of(
                        scalar("third", 1 / 3f),
                        scalar("three", 3),
                        scalar("root", (float) Math.sqrt(1 / 3.0)),
                        scalar("zero", 0),
                        scalar("lowest", -1e4f),
                        Initializer.of(Tensor.ofFloats(arena, "low", Shape.of(TOKENS), low)),
                        Initializer.of(Tensor.ofFloats(arena, "high", Shape.of(TOKENS), high)),
                        Initializer.of(seen)),
                List.of(value("a", DType.F32), value("b", DType.F32)),
                List.of(value("y", DType.F32)));
    }

    private Initializer scalar(String name, float value) {
        return Initializer.of(Tensor.ofFloats(arena, name, Shape.SCALAR, value));
    }

    private GraphModel quantised(Graph graph, Map<String, ActivationScale> scales, OnnxTarget target) {
        Plan plan = Planner.plan(graph, Recipes.FP8_WEIGHT_ONLY, List.of(), FP8);
        assertEquals(2, plan.converted(LayerKind.ATTENTION).size());
        PlanRewrite.Result result = PlanRewrite.apply(
                GraphModel.of(graph, 10, 21), plan, scales, new RoundToNearest(Quantizer.sequential(), arena), arena);
        return Lowering.lower(result.model(), target, arena, new PassLog());
    }

    private float[] run(GraphModel model, float[] a, float[] b) throws IOException {
        Path file = folder.resolve("model.onnx");
        OnnxWriter.write(model, file);
        Shape shape = Shape.of(1, TOKENS, WIDTH);
        Map<String, Tensor> inputs =
                Map.of("a", Tensor.ofFloats(arena, "a", shape, a), "b", Tensor.ofFloats(arena, "b", shape, b));
        try (OnnxRuntimeSession session = OnnxRuntime.open(file, SessionSettings.defaults());
                OnnxRuntimeSession.Outputs out = session.run(new Batch(0, 1, inputs))) {
            return out.read("y").toFloats();
        }
    }

    private float[] normal() {
        float[] values = new float[TOKENS * WIDTH];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return values;
    }

    private static float scale(float[] values) {
        float amax = 0;
        for (float v : values) {
            amax = Math.max(amax, Math.abs(v));
        }
        return amax / 448;
    }

    private static ActivationScale known(String value, float scale) {
        return new ActivationScale(value, scale * 448, scale * 448, scale, 0);
    }

    private static double[] rounded(float[] x, float scale) {
        Float8Format e4m3 = Float8Format.E4M3FN;
        double[] values = new double[x.length];
        for (int i = 0; i < x.length; i++) {
            values[i] = (double) e4m3.decode(e4m3.encode(x[i] / scale, Overflow.SATURATE) & 0xFF) * scale;
        }
        return values;
    }

    @ParameterizedTest
    @EnumSource
    void both_products_give_what_operands_rounded_by_their_scales_give(Spelling spelling) throws Exception {
        float[] a = normal();
        float[] b = normal();
        boolean scaled = spelling == Spelling.SCALED_OPERANDS;
        float root = (float) Math.sqrt(1 / 3.0);
        float[] queries = a.clone();
        float[] keys = b.clone();
        for (int i = 0; scaled && i < a.length; i++) {
            queries[i] *= root;
            keys[i] *= root;
        }
        Map<String, ActivationScale> scales = new HashMap<>();
        String first = scaled ? "scaled_queries" : "queries";
        String second = scaled ? "scaled_keys" : "keys";
        scales.put(first, known(first, scale(queries)));
        scales.put(second, known(second, scale(keys)));
        scales.put("values", known("values", scale(b)));
        scales.put("guarded", known("guarded", 1 / 448f));
        scales.put("kept", known("kept", 1 / 448f));
        float[] y = run(quantised(graph(spelling), scales, OnnxTarget.ONNXRUNTIME), a, b);
        double[] q = rounded(queries, scale(queries));
        double[] k = rounded(keys, scale(keys));
        double[] v = rounded(b, scale(b));
        for (int row = 0; row < TOKENS; row++) {
            float[] p = new float[TOKENS];
            double sum = 0;
            for (int c = 0; c < TOKENS; c++) {
                double score = 0;
                for (int i = 0; i < WIDTH; i++) {
                    score += q[row * WIDTH + i] * k[c * WIDTH + i];
                }
                boolean hidden = spelling.masks() && c == TOKENS - 1;
                p[c] = hidden ? 0 : (float) Math.exp(scaled ? score : score / 3);
                sum += p[c];
            }
            for (int c = 0; c < TOKENS; c++) {
                p[c] = (float) (p[c] / sum);
            }
            double[] codes = rounded(p, 1 / 448f);
            for (int i = 0; i < WIDTH; i++) {
                double want = 0;
                for (int c = 0; c < TOKENS; c++) {
                    want += codes[c] * v[c * WIDTH + i];
                }
                assertEquals(want, y[row * WIDTH + i], 1e-5, spelling + ", row " + row + ", element " + i);
            }
        }
    }

    @Test
    void only_what_a_softmax_makes_needs_no_statistics() {
        Plan plan = Planner.plan(graph(Spelling.MULTIPLIED), Recipes.FP8_WEIGHT_ONLY, List.of(), FP8);
        assertTrue(plan.needsStatistics());
        assertEquals(List.of("queries", "keys", "values"), List.copyOf(plan.taps()));
        Plan guarded = Planner.plan(graph(Spelling.SCALED_OPERANDS), Recipes.FP8_WEIGHT_ONLY, List.of(), FP8);
        assertEquals(List.of("scaled_queries", "scaled_keys", "guarded", "values"), List.copyOf(guarded.taps()));
    }

    @Test
    void for_TensorRT_both_operands_come_from_quantizers_of_the_values_themselves() {
        Map<String, ActivationScale> scales = new HashMap<>();
        List.of("queries", "keys", "values").forEach(v -> scales.put(v, known(v, 0.01f)));
        GraphEdit edit = GraphEdit.of(quantised(graph(Spelling.MULTIPLIED), scales, OnnxTarget.TENSORRT)
                .graph());
        List<String> quantised = new ArrayList<>();
        for (Node product : edit.nodes().stream().filter(n -> n.is("MatMul")).toList()) {
            for (String operand : product.inputs()) {
                Node dequantize = Objects.requireNonNull(edit.producer(operand));
                assertEquals("DequantizeLinear", dequantize.opType());
                quantised.add(Objects.requireNonNull(edit.producer(dequantize.input(0)))
                        .input(0));
            }
        }
        assertEquals(List.of("queries", "keys", "p", "values"), quantised);
    }

    private static List<Decision.Kept> kept(Graph graph, Recipe recipe, List<Pattern> keep) {
        return Planner.plan(graph, recipe, keep, FP8).kept().stream()
                .filter(d -> d.kind() == LayerKind.ATTENTION)
                .toList();
    }

    private static String reason(Graph graph, Recipe recipe) {
        return kept(graph, recipe, List.of()).getFirst().reason();
    }

    private static Graph whole(String domain, String operator) {
        return Graph.of(
                "whole",
                List.of(Node.of("att", operator, domain, List.of("a", "b", "b"), List.of("y"))),
                List.of(),
                List.of(value("a", DType.F32), value("b", DType.F32)),
                List.of(value("y", DType.F32)));
    }

    @Test
    void what_stays_in_floats_says_why() {
        assertEquals(
                "both products are in one node of com.microsoft",
                reason(whole("com.microsoft", "MultiHeadAttention"), Recipes.FP8_WEIGHT_ONLY));
        assertEquals(
                "both products are in one node; 'octet convert --target onnx' writes them apart",
                reason(whole("", "Attention"), Recipes.FP8_WEIGHT_ONLY));
        assertTrue(kept(whole("com.example", "Attention"), Recipes.FP8_WEIGHT_ONLY, List.of())
                .isEmpty());
        assertEquals(
                "asked to keep it: 'mix'",
                kept(graph(Spelling.MULTIPLIED), Recipes.FP8_WEIGHT_ONLY, List.of(Pattern.compile("mix")))
                        .getFirst()
                        .reason());
        GraphEdit edit = GraphEdit.of(graph(Spelling.MULTIPLIED));
        float[] w = new float[WIDTH * 4];
        w[3] = 1;
        edit.putInitializer(Initializer.of(Tensor.ofFloats(arena, "w", Shape.of(WIDTH, 4), w)));
        edit.append(Node.of("linear", "Linear", Node.OCTET_DOMAIN, List.of("values", "w"), List.of("z")));
        assertEquals(
                "its operand 'values' is quantised for Linears in another way",
                reason(edit.build(), Recipes.GRAPH_INT8));
        assertTrue(kept(edit.build(), Recipes.GRAPH_FP8, List.of()).isEmpty());
    }

    @Test
    void nothing_but_a_product_beside_a_softmax_is_one_of_attention() {
        GraphEdit edit = GraphEdit.of(graph(Spelling.MULTIPLIED));
        Node softmax =
                edit.nodes().stream().filter(n -> n.is("Softmax")).findFirst().orElseThrow();
        edit.replace(softmax, Node.of("softmax", "Sigmoid", List.of("m"), List.of("p")));
        assertTrue(Planner.plan(edit.build(), Recipes.FP8_WEIGHT_ONLY, List.of(), FP8)
                .decisions()
                .isEmpty());
    }
}
