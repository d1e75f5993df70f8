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
import dev.octet.converter.verify.Consumer;
import dev.octet.converter.verify.Finding;
import dev.octet.converter.verify.Verifier;
import dev.octet.converter.verify.VerifyOptions;
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
import dev.octet.quant.cast.Floats;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Convolutions with weights in 8-bit floats, in ONNX Runtime with default options, against the same weights in floats. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ConvolutionWeightsTest {
    private static final Map<LayerKind, QuantType> FP8 = Map.of(LayerKind.CONV, QuantType.E4M3FN);

    private final Arena arena = Arena.ofShared();
    private final SplittableRandom random = new SplittableRandom(5);

    @TempDir
    Path folder;

    @AfterEach
    void close() {
        arena.close();
    }

    /** Convolutions as exporters write them; each has output channels of very different sizes. */
    enum Case {
        PLAIN("Conv", new long[] {4, 6, 3, 4}, 1, 0),
        OF_SEQUENCES("Conv", new long[] {4, 6, 11}, 1, 0),
        IN_GROUPS("Conv", new long[] {4, 3, 5, 5}, 2, 0),
        OF_EACH_CHANNEL("Conv", new long[] {6, 1, 8, 8}, 6, 0),
        TRANSPOSED("ConvTranspose", new long[] {6, 4, 3, 4}, 1, 1),
        TRANSPOSED_IN_GROUPS("ConvTranspose", new long[] {6, 2, 5, 5}, 2, 1),
        TRANSPOSED_OF_EACH_CHANNEL("ConvTranspose", new long[] {6, 1, 8, 8}, 6, 0);

        final String operator;

        @SuppressWarnings("ImmutableEnumChecker") // never written
        final long[] weight;

        final int groups;
        final int scaleAxis;

        Case(String operator, long[] weight, int groups, int scaleAxis) {
            this.operator = operator;
            this.weight = weight;
            this.groups = groups;
            this.scaleAxis = scaleAxis;
        }

        int index(int element) {
            int inner = 1;
            for (int axis = weight.length - 1; axis > scaleAxis; axis--) {
                inner *= (int) weight[axis];
            }
            return element / inner % (int) weight[scaleAxis];
        }
    }

    private static final int CHANNELS = 6;
    private static final int SIDE = 12;

    private float[] weight(Case of) {
        float[] w = new float[(int) Shape.of(of.weight).elementCount()];
        for (int i = 0; i < w.length; i++) {
            w[i] = (float) (random.nextGaussian() * Math.pow(10, -of.index(i)));
        }
        return w;
    }

    /** Each element to the nearest E4M3 of a scale amax / 448 of those at its index. */
    private static float[] rounded(Case of, float[] w) {
        float[] amax = new float[(int) of.weight[of.scaleAxis]];
        for (int i = 0; i < w.length; i++) {
            amax[of.index(i)] = Math.max(amax[of.index(i)], Math.abs(w[i]));
        }
        float[] values = new float[w.length];
        for (int i = 0; i < w.length; i++) {
            float scale = amax[of.index(i)] / 448;
            Float8Format e4m3 = Float8Format.E4M3FN;
            values[i] = e4m3.decode(e4m3.encode(w[i] / scale, Overflow.SATURATE) & 0xFF) * scale;
        }
        return values;
    }

    private Graph graph(Case of, float[] w) {
        List<Dim> x = new ArrayList<>(List.of(Dim.of(2), Dim.of(CHANNELS)));
        List<Dim> y = new ArrayList<>(List.of(Dim.of("n"), Dim.of("c")));
        for (int axis = 2; axis < of.weight.length; axis++) {
            x.add(Dim.of(SIDE));
            y.add(Dim.of("s" + axis));
        }
        return Graph.of(
                "convolution",
                List.of(
                        Node.of("in", "Relu", List.of("x"), List.of("r")),
                        Node.of(
                                "c",
                                of.operator,
                                "",
                                List.of("r", "c.weight"),
                                List.of("s"),
                                Attribute.of("group", of.groups)),
                        Node.of("out", "Relu", List.of("s"), List.of("y"))),
                List.of(Initializer.of(Tensor.ofFloats(arena, "c.weight", Shape.of(of.weight), w))),
                List.of(new ValueInfo("x", new TensorType(DType.F32, x))),
                List.of(new ValueInfo("y", new TensorType(DType.F32, y))));
    }

    private GraphModel quantised(Graph graph) {
        Plan plan = Planner.plan(graph, Recipes.FP8_WEIGHT_ONLY, List.of(), FP8);
        PlanRewrite.Result result = PlanRewrite.apply(
                GraphModel.of(graph, 8, 17), plan, Map.of(), new RoundToNearest(Quantizer.sequential(), arena), arena);
        return Lowering.lower(result.model(), OnnxTarget.ONNXRUNTIME, arena, new PassLog());
    }

    private float[] run(GraphModel model, float[] x, Case of) throws IOException {
        Path file = folder.resolve("model.onnx");
        OnnxWriter.write(model, file);
        long[] dims = new long[of.weight.length];
        Arrays.fill(dims, SIDE);
        dims[0] = 2;
        dims[1] = CHANNELS;
        Tensor input = Tensor.ofFloats(arena, "x", Shape.of(dims), x);
        try (OnnxRuntimeSession session = OnnxRuntime.open(file, SessionSettings.defaults());
                OnnxRuntimeSession.Outputs out = session.run(new Batch(0, 1, Map.of("x", input)))) {
            return out.read("y").toFloats();
        }
    }

    @ParameterizedTest
    @EnumSource
    void it_computes_with_the_weights_that_its_codes_and_scales_stand_for(Case of) throws Exception {
        float[] w = weight(of);
        float[] x = new float[2 * CHANNELS * (int) Math.pow(SIDE, of.weight.length - 2)];
        for (int i = 0; i < x.length; i++) {
            x[i] = (float) random.nextGaussian();
        }
        GraphModel model = quantised(graph(of, w));
        Tensor codes = constant(model, "c.weight");
        assertEquals(DType.F8_E4M3FN, codes.dtype());
        assertEquals(
                Shape.of(of.weight[of.scaleAxis]),
                constant(model, "c.weight_scale").shape());
        float[] want = run(GraphModel.of(graph(of, rounded(of, w)), 8, 17), x, of);
        float[] got = run(model, x, of);
        float largest = 0;
        for (float v : want) {
            largest = Math.max(largest, Math.abs(v));
        }
        assertTrue(largest > 0);
        for (int i = 0; i < got.length; i++) {
            // sums of at most 75 products, in another order: 75 * 2^-24 of the largest
            assertEquals(want[i], got[i], 5e-6 * largest, of + ", element " + i);
        }
    }

    private static Tensor constant(GraphModel model, String name) {
        return Objects.requireNonNull(model.graph().initializers().get(name))
                .tensor()
                .orElseThrow();
    }

    /** Rules that find something, with the original at hand. */
    private Set<String> rules(Graph original, GraphModel model) throws IOException {
        Path before = folder.resolve("original.onnx");
        Path after = folder.resolve("quantised.onnx");
        OnnxWriter.write(GraphModel.of(original, 8, 17), before);
        OnnxWriter.write(model, after);
        return Verifier.verify(
                        after,
                        VerifyOptions.defaults()
                                .withConsumers(Set.of(Consumer.ONNXRUNTIME))
                                .withDeep(true)
                                .withOriginal(before))
                .findings()
                .stream()
                .map(Finding::rule)
                .collect(Collectors.toUnmodifiableSet());
    }

    @ParameterizedTest
    @EnumSource
    void verify_finds_nothing_but_planted_faults(Case of) throws Exception {
        Graph original = graph(of, weight(of));
        GraphModel model = quantised(original);
        assertEquals(Set.of(), rules(original, model));
        GraphEdit scaled = GraphEdit.of(model.graph());
        float[] scales = Objects.requireNonNull(scaled.initializer("c.weight_scale"))
                .tensor()
                .orElseThrow()
                .toFloats();
        scales[0] *= 2;
        scaled.putInitializer(
                Initializer.of(Tensor.ofFloats(arena, "c.weight_scale", Shape.of(scales.length), scales)));
        assertTrue(rules(original, model.withGraph(scaled.build())).contains("onnx-weight-differs"));
        int other = of.scaleAxis == 0 ? 1 : 0;
        if (of.weight[other] > 1) {
            GraphEdit turned = GraphEdit.of(model.graph());
            Node dequantize = Objects.requireNonNull(turned.producer("c.weight_dq"));
            turned.replace(dequantize, dequantize.with(Attribute.of("axis", other)));
            float[] along = new float[(int) of.weight[other]];
            Arrays.fill(along, scales[0]);
            turned.putInitializer(
                    Initializer.of(Tensor.ofFloats(arena, "c.weight_scale", Shape.of(along.length), along)));
            assertTrue(rules(original, model.withGraph(turned.build())).contains("onnx-weight-axis"));
        }
    }

    private static String reason(Graph graph, Map<LayerKind, QuantType> others, List<Pattern> keep) {
        return Planner.plan(graph, Recipes.FP8_WEIGHT_ONLY, keep, others)
                .kept()
                .getFirst()
                .reason();
    }

    @Test
    void what_stays_in_floats_says_why() {
        Graph plain = graph(Case.PLAIN, weight(Case.PLAIN));
        assertEquals("convolutions stay in floats unless asked for", reason(plain, Map.of(), List.of()));
        assertEquals("asked to keep it: 'c.weight'", reason(plain, FP8, List.of(Pattern.compile("c.weight"))));
        assertEquals("its weight is F8_E4M3FN already", reason(quantised(plain).graph(), FP8, List.of()));
        GraphEdit computed = GraphEdit.of(plain);
        computed.removeInitializer("c.weight");
        computed.insertBefore(computed.nodes().getFirst(), Node.of("w", "Identity", List.of("x"), List.of("c.weight")));
        assertEquals("its weight 'c.weight' is not a constant tensor", reason(computed.build(), FP8, List.of()));
        GraphEdit shared = GraphEdit.of(plain);
        shared.append(Node.of("other", "Identity", List.of("c.weight"), List.of("z")));
        assertEquals("its weight is also read by other nodes", reason(shared.build(), FP8, List.of()));
        float[] broken = weight(Case.PLAIN);
        broken[3] = Float.NaN;
        assertEquals("its weight has NaN elements", reason(graph(Case.PLAIN, broken), FP8, List.of()));
        float[] few = new float[4 * 6 * 3 * 3];
        Arrays.fill(few, 1);
        GraphEdit small = GraphEdit.of(plain);
        small.putInitializer(Initializer.of(Tensor.ofFloats(arena, "c.weight", Shape.of(4, 6, 3, 3), few)));
        assertEquals(
                "its outputs are sums of few products, 54, in which the errors of 8-bit floats hardly average out",
                reason(small.build(), FP8, List.of()));
        Graph transposed = graph(Case.TRANSPOSED, weight(Case.TRANSPOSED));
        assertEquals(
                "ONNX has no ConvTranspose of integers",
                reason(transposed, Map.of(LayerKind.CONV, QuantType.INT8), List.of()));
    }

    @Test
    void weights_in_halves_have_scales_in_halves() {
        Graph graph = graph(Case.PLAIN, weight(Case.PLAIN));
        Tensor wide = Objects.requireNonNull(graph.initializers().get("c.weight"))
                .tensor()
                .orElseThrow();
        GraphEdit edit = GraphEdit.of(graph);
        Tensor narrow = Tensor.allocate(arena, new TensorSpec("c.weight", DType.F16, wide.shape()));
        Floats.convert(
                DType.F32, wide.bytes(), DType.F16, narrow.bytes(), wide.shape().elementCount());
        edit.putInitializer(Initializer.of(narrow));
        GraphModel model = quantised(edit.build());
        assertEquals(DType.F16, constant(model, "c.weight_scale").dtype());
        assertTrue(model.opset() >= 19, "DequantizeLinear yields the type of its scale from opset 19 on");
    }
}
