package dev.octet.converter.verify;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.converter.verify.GraphRuleTest.Fault;
import dev.octet.converter.verify.GraphRuleTest.Plant;
import dev.octet.converter.verify.GraphRuleTest.Sketch;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Rules of integers in graphs, each against a graph with its fault and nothing else wrong. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class IntegerRuleTest {
    private static final int SIZE = 16;

    @TempDir
    Path folder;

    /** Makes a good product of U8 by S8 of a sketch: the largest code of every column is in the first row. */
    private static void unsigned(Sketch s) {
        s.constants.clear();
        s.nodes.clear();
        s.floats("x_scale", Shape.SCALAR, 0.02f);
        s.codes("x_zero", DType.U8, Shape.SCALAR, 128);
        float[] scales = new float[SIZE];
        Tensor codes = Tensor.allocate(s.arena, new TensorSpec("w", DType.I8, Shape.of(SIZE, SIZE)));
        for (int i = 0; i < SIZE * SIZE; i++) {
            int row = i / SIZE;
            int column = i % SIZE;
            scales[column] = 0.001f * (1 + column);
            codes.bytes().set(ValueLayout.JAVA_BYTE, i, (byte) (row == 0 ? 127 : (row * 37 + column * 11) % 181 - 90));
        }
        s.constants.put("w", codes);
        s.floats("w_scale", Shape.of(SIZE), scales);
        s.codes("w_zero", DType.I8, Shape.of(SIZE), 0);
        s.floats("bias", Shape.of(SIZE), new float[SIZE]);
        s.nodes.add(Node.of("q", "QuantizeLinear", List.of("x", "x_scale", "x_zero"), List.of("xq")));
        s.nodes.add(Node.of("dq", "DequantizeLinear", List.of("xq", "x_scale", "x_zero"), List.of("xd")));
        s.nodes.add(weight(1));
        s.nodes.add(Node.of("product", "MatMul", List.of("xd", "wd"), List.of("p")));
        s.nodes.add(Node.of("sum", "Add", List.of("p", "bias"), List.of("y")));
    }

    private static Node weight(long axis) {
        return Node.of(
                "dqw",
                "DequantizeLinear",
                List.of("w", "w_scale", "w_zero"),
                List.of("wd"),
                Attribute.of("axis", axis));
    }

    /** The same as TensorRT takes it: S8 by S8, zero points 0. */
    private static void signed(Sketch s) {
        unsigned(s);
        s.codes("x_zero", DType.I8, Shape.SCALAR, 0);
    }

    private static Plant in(Plant base, Plant fault) {
        return s -> {
            base.into(s);
            fault.into(s);
        };
    }

    private static Fault of(String rule, Severity severity, boolean deep, Consumer consumer, Plant base, Plant fault) {
        return new Fault(rule, severity, deep, Set.of(consumer), Set.of(), in(base, fault));
    }

    private static Fault error(String rule, Plant fault) {
        return of(rule, Severity.ERROR, false, Consumer.ONNXRUNTIME, IntegerRuleTest::unsigned, fault);
    }

    private static Fault tensorrt(String rule, Plant fault) {
        return of(rule, Severity.ERROR, false, Consumer.TENSORRT, IntegerRuleTest::signed, fault);
    }

    private static void dequantize(Sketch s, String scale, String zero) {
        s.replace("dq", Node.of("dq", "DequantizeLinear", List.of("xq", scale, zero), List.of("xd")));
    }

    static List<Fault> faults() {
        Plant unsigned = IntegerRuleTest::unsigned;
        Consumer ort = Consumer.ONNXRUNTIME;
        return List.of(
                error("onnx-zero-point-type", s -> {
                    s.codes("other", DType.I8, Shape.SCALAR, 128);
                    dequantize(s, "x_scale", "other");
                }),
                error("onnx-zero-point-type", s -> s.codes("w_zero", DType.I8, Shape.of(SIZE / 2), 0)),
                error("onnx-zero-point-type", s -> s.codes("w_zero", DType.I8, Shape.of(SIZE / 2), 1)),
                error("onnx-codes-agree", s -> {
                    s.floats("other", Shape.SCALAR, 0.04f);
                    dequantize(s, "other", "x_zero");
                }),
                error("onnx-codes-agree", s -> {
                    s.codes("other", DType.U8, Shape.SCALAR, 129);
                    dequantize(s, "x_scale", "other");
                }),
                error("onnx-codes-agree", s -> dequantize(s, "x_scale", "")),
                error("onnx-codes-agree", IntegerRuleTest::foreignZero),
                error("onnx-bias-scale", s -> bias(s, 2)),
                of("onnx-signed-input", Severity.ADVICE, false, ort, unsigned, IntegerRuleTest::signed),
                error(
                        "onnx-weight-zero-point",
                        s -> Objects.requireNonNull(s.constants.get("w_zero"))
                                .bytes()
                                .set(ValueLayout.JAVA_BYTE, 3, (byte) 1)),
                of(
                        "onnx-weight-zero-point",
                        Severity.WARNING,
                        false,
                        ort,
                        unsigned,
                        s -> s.codes("w_zero", DType.I8, Shape.of(SIZE), 1)),
                of("onnx-weight-axis", Severity.WARNING, false, ort, unsigned, s -> s.replace("dqw", weight(0))),
                tensorrt("onnx-weight-axis", s -> s.replace("dqw", weight(0))),
                of("onnx-weight-range", Severity.ERROR, true, ort, unsigned, s -> s.replace("dqw", weight(0)))
                        .also("onnx-weight-axis"),
                of("onnx-weight-range", Severity.ADVICE, true, ort, unsigned, IntegerRuleTest::halve),
                tensorrt("onnx-integer-kind", IntegerRuleTest::unsigned),
                tensorrt("onnx-integer-kind", s -> s.codes("x_zero", DType.I8, Shape.SCALAR, 3)),
                tensorrt("onnx-activation-axis", s -> {
                    s.floats("x_scale", Shape.of(2), 1, 2);
                    s.codes("x_zero", DType.I8, Shape.of(2), 0);
                }),
                tensorrt("onnx-scale-constant", s -> {
                    s.nodes.addFirst(Node.of("mul", "Mul", List.of("x_scale", "x_scale"), List.of("computed")));
                    s.replace("q", Node.of("q", "QuantizeLinear", List.of("x", "computed", "x_zero"), List.of("xq")));
                    dequantize(s, "computed", "x_zero");
                }),
                tensorrt(
                        "onnx-integer-operator",
                        s -> s.nodes.add(
                                Node.of("dynamic", "DynamicQuantizeLinear", List.of("x"), List.of("c", "cs", "cz")))));
    }

    /** Two products of integers, the second with the zero point of the first one's input. */
    private static void foreignZero(Sketch s) {
        s.nodes.clear();
        s.floats("half", Shape.SCALAR, 0.5f);
        s.nodes.add(Node.of("scaled", "Mul", List.of("x", "half"), List.of("h")));
        for (String x : List.of("x", "h")) {
            s.nodes.add(Node.of(
                    "quantize_" + x, "DynamicQuantizeLinear", List.of(x), List.of(x + "_q", x + "_s", x + "_z")));
            s.nodes.add(Node.of("multiply_" + x, "MatMulInteger", List.of(x + "_q", "w", "x_z"), List.of(x + "_i")));
            s.nodes.add(Node.of("cast_" + x, "Cast", List.of(x + "_i"), List.of(x + "_f"), Attribute.of("to", 1)));
            s.nodes.add(Node.of("scales_" + x, "Mul", List.of(x + "_s", "w_scale"), List.of(x + "_ws")));
            s.nodes.add(Node.of("scale_" + x, "Mul", List.of(x + "_f", x + "_ws"), List.of(x + "_y")));
        }
        s.nodes.add(Node.of("sum", "Add", List.of("x_y", "h_y"), List.of("y")));
    }

    /** A Gemm with a bias in 32-bit integers, whose scales are {@code factor} times what they should be. */
    private static void bias(Sketch s, float factor) {
        float[] weight = Objects.requireNonNull(s.constants.get("w_scale")).toFloats();
        float[] scales = new float[SIZE];
        for (int i = 0; i < SIZE; i++) {
            scales[i] = 0.02f * weight[i] * factor;
        }
        s.floats("b_scale", Shape.of(SIZE), scales);
        s.codes("b", DType.I32, Shape.of(SIZE), 1);
        s.nodes.removeLast();
        s.nodes.add(
                Node.of("dqb", "DequantizeLinear", List.of("b", "b_scale"), List.of("bd"), Attribute.of("axis", 0)));
        s.replace("product", Node.of("product", "Gemm", List.of("xd", "wd", "bd"), List.of("y")));
        s.nodes.add(s.nodes.remove(s.nodes.size() - 2)); // the product last
    }

    private static void halve(Sketch s) {
        Tensor codes = Objects.requireNonNull(s.constants.get("w"));
        for (long i = 0; i < codes.bytes().byteSize(); i++) {
            byte code = codes.bytes().get(ValueLayout.JAVA_BYTE, i);
            codes.bytes().set(ValueLayout.JAVA_BYTE, i, (byte) Math.round(code / 2.0));
        }
    }

    private Verification verify(Sketch sketch, Set<Consumer> consumers, boolean deep) throws IOException {
        return Verifier.verify(
                sketch.write(folder.resolve("model.onnx")),
                VerifyOptions.defaults().withConsumers(consumers).withDeep(deep));
    }

    @Test
    void good_graphs_have_no_finding() throws IOException {
        Sketch s = new Sketch();
        unsigned(s);
        assertEquals(List.of(), verify(s, Set.of(Consumer.ONNXRUNTIME), true).findings());
        bias(s, 1);
        assertEquals(List.of(), verify(s, Set.of(Consumer.ONNXRUNTIME), true).findings());
        Sketch t = new Sketch();
        signed(t);
        assertEquals(List.of(), verify(t, Set.of(Consumer.TENSORRT), true).findings());
    }

    @ParameterizedTest
    @MethodSource("faults")
    void a_planted_fault_is_found_and_told_as_what_it_is(Fault fault) throws IOException {
        Sketch sketch = new Sketch();
        fault.plant().into(sketch);
        RuleTest.assertFound(
                fault.rule(), fault.severity(), fault.also(), verify(sketch, fault.consumers(), fault.deep()));
    }

    /** A fault of weights that only the original shows, planted in the layers of {@link #layers}. */
    record WeightFault(String what, String rule, Severity severity, Set<String> also, Plant plant) {
        @Override
        public String toString() {
            return what;
        }
    }

    static List<WeightFault> faultsOfWeights() {
        String differs = "onnx-weight-differs";
        Set<String> axis = Set.of("onnx-weight-axis", "onnx-weight-range");
        return List.of(
                new WeightFault("scale twice as large", differs, Severity.ERROR, Set.of(), s -> {
                    float[] scales = scales(s, "a_scale");
                    for (int i = 0; i < scales.length; i++) {
                        scales[i] *= 2;
                    }
                    s.floats("a_scale", Shape.of(WIDTH), scales);
                }),
                new WeightFault("scale of one channel twice as large", differs, Severity.ERROR, Set.of(), s -> {
                    float[] scales = scales(s, "a_scale");
                    scales[3] *= 2;
                    s.floats("a_scale", Shape.of(WIDTH), scales);
                }),
                new WeightFault("scales of two layers swapped", differs, Severity.ERROR, Set.of(), s -> {
                    float[] first = scales(s, "a_scale");
                    s.floats("a_scale", Shape.of(WIDTH), scales(s, "b_scale"));
                    s.floats("b_scale", Shape.of(WIDTH), first);
                }),
                new WeightFault(
                        "axis of the inputs",
                        differs,
                        Severity.ERROR,
                        axis,
                        s -> s.replace("a_dq", dequantizer("a", 0))),
                new WeightFault(
                        "zero points off by one",
                        differs,
                        Severity.ERROR,
                        Set.of("onnx-weight-zero-point"),
                        s -> s.codes("a_zero", DType.I8, Shape.of(WIDTH), 1)),
                new WeightFault(
                        "one code far away",
                        differs,
                        Severity.ERROR,
                        Set.of(),
                        s -> Objects.requireNonNull(s.constants.get("a"))
                                .bytes()
                                .set(ValueLayout.JAVA_BYTE, 77, (byte) 100)),
                new WeightFault("codes rounded down", "onnx-weight-rounding", Severity.ADVICE, Set.of(), s -> {
                    layers(s, true);
                }));
    }

    private static final int WIDTH = 32;

    private static final List<String> LAYERS = List.of("a", "b", "c", "d", "e");

    private static float[] scales(Sketch s, String name) {
        return Objects.requireNonNull(s.constants.get(name)).toFloats();
    }

    private static Node dequantizer(String layer, long axis) {
        return Node.of(
                layer + "_dq",
                "DequantizeLinear",
                List.of(layer, layer + "_scale", layer + "_zero"),
                List.of(layer + "_w"),
                Attribute.of("axis", axis));
    }

    /** Weights of a layer; channels differ in size by up to eight. */
    private static float[] weights(int seed) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] w = new float[WIDTH * WIDTH];
        for (int i = 0; i < w.length; i++) {
            w[i] = (float) (random.nextGaussian() * 0.1 * (1 + (i % WIDTH * 5 + seed) % 8));
        }
        return w;
    }

    /** Layers in weight-only integers. */
    private static void layers(Sketch s, boolean down) {
        s.constants.clear();
        s.nodes.clear();
        s.floats("in", Shape.of(SIZE, WIDTH), new float[SIZE * WIDTH]);
        s.floats("out", Shape.of(WIDTH, SIZE), new float[SIZE * WIDTH]);
        s.nodes.add(Node.of("first", "MatMul", List.of("x", "in"), List.of("h0")));
        String x = "h0";
        int seed = 1;
        for (String layer : LAYERS) {
            float[] w = weights(seed++);
            float[] scales = new float[WIDTH];
            for (int i = 0; i < w.length; i++) {
                scales[i % WIDTH] = Math.max(scales[i % WIDTH], Math.abs(w[i]) / 127);
            }
            Tensor codes = Tensor.allocate(s.arena, new TensorSpec(layer, DType.I8, Shape.of(WIDTH, WIDTH)));
            for (int i = 0; i < w.length; i++) {
                float v = w[i] / scales[i % WIDTH];
                codes.bytes().set(ValueLayout.JAVA_BYTE, i, (byte) (down ? Math.floor(v) : Math.rint(v)));
            }
            s.constants.put(layer, codes);
            s.floats(layer + "_scale", Shape.of(WIDTH), scales);
            s.codes(layer + "_zero", DType.I8, Shape.of(WIDTH), 0);
            s.nodes.add(dequantizer(layer, 1));
            s.nodes.add(Node.of(layer + "_mul", "MatMul", List.of(x, layer + "_w"), List.of(layer + "_y")));
            x = layer + "_y";
        }
        s.nodes.add(Node.of("last", "MatMul", List.of(x, "out"), List.of("y")));
    }

    private Path original() throws IOException {
        Sketch s = new Sketch();
        layers(s, false);
        s.constants.keySet().removeIf(n -> n.endsWith("_scale") || n.endsWith("_zero"));
        s.nodes.removeIf(n -> n.is("DequantizeLinear"));
        int seed = 1;
        for (String layer : LAYERS) {
            s.floats(layer, Shape.of(WIDTH, WIDTH), weights(seed++));
            Node product = s.nodes.stream()
                    .filter(n -> n.name().equals(layer + "_mul"))
                    .findFirst()
                    .orElseThrow();
            s.replace(layer + "_mul", product.withInputs(List.of(product.input(0), layer)));
        }
        return s.write(folder.resolve("original.onnx"));
    }

    private Verification against(Sketch s) throws IOException {
        return Verifier.verify(
                s.write(folder.resolve("model.onnx")),
                VerifyOptions.defaults()
                        .withConsumers(Set.of(Consumer.ONNXRUNTIME))
                        .withDeep(true)
                        .withOriginal(original()));
    }

    @Test
    void weights_rounded_to_nearest_are_those_of_the_original() throws IOException {
        Sketch s = new Sketch();
        layers(s, false);
        assertEquals(List.of(), against(s).findings());
    }

    @ParameterizedTest
    @MethodSource("faultsOfWeights")
    void the_original_shows_what_is_wrong_with_a_weight(WeightFault fault) throws IOException {
        Sketch s = new Sketch();
        layers(s, false);
        fault.plant().into(s);
        RuleTest.assertFound(fault.rule(), fault.severity(), fault.also(), against(s));
    }
}
