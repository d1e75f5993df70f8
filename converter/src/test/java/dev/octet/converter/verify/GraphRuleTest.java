package dev.octet.converter.verify;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Each rule of graphs against a graph with its fault and nothing else wrong. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GraphRuleTest {
    private static final int SIZE = 16;

    @TempDir
    Path folder;

    /** A quantised product {@code y = DQ(Q(x)) w} in the making. */
    static final class Sketch {
        final Arena arena = Arena.ofAuto();
        final Map<String, Tensor> constants = new LinkedHashMap<>();
        final List<Node> nodes = new ArrayList<>();
        long irVersion = 10;
        long opset = 21;

        Sketch() {
            floats("x_scale", Shape.SCALAR, 0.02f);
            codes("x_zero", DType.F8_E4M3FN, Shape.SCALAR, 0);
            floats("w_scale", Shape.SCALAR, 0.001f);
            codes("w", DType.F8_E4M3FN, Shape.of(SIZE, SIZE), 0x38);
            floats("bias", Shape.of(SIZE), new float[SIZE]);
            nodes.add(Node.of("q", "QuantizeLinear", List.of("x", "x_scale", "x_zero"), List.of("xq")));
            nodes.add(Node.of("dq", "DequantizeLinear", List.of("xq", "x_scale", "x_zero"), List.of("xd")));
            nodes.add(Node.of("dqw", "DequantizeLinear", List.of("w", "w_scale", "x_zero"), List.of("wd")));
            nodes.add(Node.of("product", "Gemm", List.of("xd", "wd", "bias"), List.of("y")));
        }

        void floats(String name, Shape shape, float... values) {
            constants.put(name, Tensor.ofFloats(arena, name, shape, values));
        }

        void codes(String name, DType type, Shape shape, int code) {
            Tensor tensor = Tensor.allocate(arena, new TensorSpec(name, type, shape));
            tensor.bytes().fill((byte) code);
            constants.put(name, tensor);
        }

        void retype(DType type) {
            codes("x_zero", type, Shape.SCALAR, 0);
            codes("w", type, Shape.of(SIZE, SIZE), 0x38);
        }

        void replace(String name, Node node) {
            nodes.replaceAll(n -> n.name().equals(name) ? node : n);
        }

        /** Puts scores and their product with the values behind {@code y}; both without quantisation. */
        void attention() {
            floats("k", Shape.of(SIZE, SIZE), new float[SIZE * SIZE]);
            floats("v", Shape.of(SIZE, SIZE), new float[SIZE * SIZE]);
            replace("product", Node.of("product", "Gemm", List.of("xd", "wd", "bias"), List.of("h")));
            nodes.add(Node.of("scores", "MatMul", List.of("h", "k"), List.of("s")));
            nodes.add(Node.of("softmax", "Softmax", List.of("s"), List.of("p")));
            nodes.add(Node.of("mix", "MatMul", List.of("p", "v"), List.of("y")));
        }

        Path write(Path file) throws IOException {
            ValueType type = new ValueType.TensorType(DType.F32, List.of(Dim.of(4), Dim.of(SIZE)));
            Graph graph = Graph.of(
                    "tiny",
                    nodes,
                    constants.values().stream().map(Initializer::of).toList(),
                    List.of(new ValueInfo("x", type)),
                    List.of(new ValueInfo("y", type)));
            ModelFile.save(Model.of(GraphModel.of(graph, irVersion, opset)), file);
            return file;
        }
    }

    /** Changes the good graph. */
    interface Plant {
        void into(Sketch sketch);
    }

    /** A fault; {@code deep}: found with --deep only. */
    record Fault(String rule, Severity severity, boolean deep, Set<Consumer> consumers, Set<String> also, Plant plant) {
        Fault also(String... rules) {
            return new Fault(rule, severity, deep, consumers, Set.of(rules), plant);
        }

        @Override
        public String toString() {
            return rule + " " + severity;
        }
    }

    private static Fault error(String rule, Consumer consumer, Plant plant) {
        return new Fault(rule, Severity.ERROR, false, Set.of(consumer), Set.of(), plant);
    }

    private static Fault deepError(String rule, Plant plant) {
        return new Fault(rule, Severity.ERROR, true, Set.of(Consumer.ONNXRUNTIME), Set.of(), plant);
    }

    static List<Fault> faults() {
        Consumer ort = Consumer.ONNXRUNTIME;
        Consumer trt = Consumer.TENSORRT;
        Node matMul = Node.of("product", "MatMul", List.of("xd", "wd"), List.of("y"));
        Node biasless = Node.of("product", "Gemm", List.of("xd", "wd"), List.of("y"));
        Node untyped = Node.of("q", "QuantizeLinear", List.of("x", "x_scale"), List.of("xq"));
        return List.of(
                error("onnx-version", ort, s -> s.opset = 27),
                error("onnx-version", ort, s -> s.irVersion = 14),
                error("onnx-version", trt, s -> s.opset = 26),
                error("onnx-fusion", ort, s -> s.replace("product", matMul)),
                error("onnx-fusion", ort, s -> s.replace("product", biasless)),
                error("onnx-relu", ort, GraphRuleTest::relu),
                error("onnx-scale-type", ort, s -> s.codes("x_scale", DType.BF16, Shape.SCALAR, 0x3C)),
                error("onnx-scale-type", trt, s -> s.codes("w_scale", DType.F8_E8M0, Shape.SCALAR, 0x78)),
                error("onnx-scale-constant", trt, s -> {
                    s.nodes.addFirst(Node.of("mul", "Mul", List.of("x_scale", "x_scale"), List.of("computed")));
                    s.replace("q", Node.of("q", "QuantizeLinear", List.of("x", "computed", "x_zero"), List.of("xq")));
                    s.replace(
                            "dq",
                            Node.of("dq", "DequantizeLinear", List.of("xq", "computed", "x_zero"), List.of("xd")));
                }),
                error("onnx-scale-value", trt, s -> s.floats("x_scale", Shape.SCALAR, 0)),
                error("onnx-scale-value", ort, s -> s.floats("w_scale", Shape.SCALAR, -1)),
                error("onnx-scale-value", ort, s -> s.floats("w_scale", Shape.SCALAR, Float.NaN)),
                error("onnx-activation-axis", trt, s -> s.floats("x_scale", Shape.of(2), 1, 2))
                        .also("onnx-zero-point-type"),
                error("onnx-quantized-type", trt, s -> s.replace("q", untyped))
                        .also("onnx-zero-point-type", "onnx-integer-kind"),
                new Fault(
                        "onnx-quantized-type",
                        Severity.WARNING,
                        false,
                        Set.of(ort),
                        Set.of("onnx-zero-point-type"),
                        s -> s.replace("q", untyped)),
                error("onnx-float8-kind", trt, s -> s.retype(DType.F8_E5M2)),
                new Fault(
                        "onnx-float8-kind",
                        Severity.ADVICE,
                        false,
                        Set.of(ort),
                        Set.of(),
                        s -> s.retype(DType.F8_E4M3FNUZ)),
                error("onnx-cast", trt, s -> {
                    s.nodes.add(Node.of("cast", "Cast", List.of("x"), List.of("c"), Attribute.of("to", 17)));
                }),
                error("onnx-kernel", ort, s -> {
                    s.replace(
                            "dqw",
                            Node.of("dqw", "DequantizeLinear", List.of("wf", "w_scale", "x_zero"), List.of("wd")));
                    s.nodes.addFirst(Node.of("flat", "Flatten", List.of("w"), List.of("wf")));
                }),
                error("onnx-zero-point", ort, s -> s.codes("x_zero", DType.F8_E4M3FN, Shape.SCALAR, 1)),
                new Fault(
                        "onnx-attention", Severity.WARNING, false, Set.of(trt), Set.of(), GraphRuleTest::halfAttention),
                error(
                        "onnx-octet-operators",
                        ort,
                        s -> s.nodes.add(
                                Node.of("fused", "QuantizedLinear", Node.OCTET_DOMAIN, List.of("x"), List.of("f")))),
                deepError(
                        "onnx-weight-nan",
                        s -> requireNonNull(s.constants.get("w")).bytes().set(ValueLayout.JAVA_BYTE, 3, (byte) 0xFF)),
                deepError(
                        "onnx-session",
                        s -> s.replace("product", Node.of("product", "NoSuchOp", List.of("xd", "wd"), List.of("y")))));
    }

    private static void relu(Sketch s) {
        s.nodes.addFirst(Node.of("relu", "Relu", List.of("x"), List.of("r")));
        s.replace("q", Node.of("q", "QuantizeLinear", List.of("r", "x_scale", "x_zero"), List.of("xq")));
    }

    /** The second product of attention quantised, the first not. */
    private static void halfAttention(Sketch s) {
        s.attention();
        s.codes("vq", DType.F8_E4M3FN, Shape.of(SIZE, SIZE), 0x38);
        s.nodes.removeLast();
        s.nodes.add(Node.of("qp", "QuantizeLinear", List.of("p", "x_scale", "x_zero"), List.of("pq")));
        s.nodes.add(Node.of("dqp", "DequantizeLinear", List.of("pq", "x_scale", "x_zero"), List.of("pd")));
        s.nodes.add(Node.of("dqv", "DequantizeLinear", List.of("vq", "w_scale", "x_zero"), List.of("vd")));
        s.nodes.add(Node.of("mix", "MatMul", List.of("pd", "vd"), List.of("y")));
    }

    private Verification verify(Sketch sketch, Set<Consumer> consumers, boolean deep) throws IOException {
        return Verifier.verify(
                sketch.write(folder.resolve("model.onnx")),
                VerifyOptions.defaults().withConsumers(consumers).withDeep(deep));
    }

    @Test
    void a_good_graph_has_no_finding() throws IOException {
        assertEquals(List.of(), verify(new Sketch(), Set.of(), true).findings());
        Sketch attention = new Sketch();
        attention.attention();
        assertEquals(List.of(), verify(attention, Set.of(), true).findings());
    }

    @ParameterizedTest
    @MethodSource("faults")
    void a_planted_fault_is_found_and_told_as_what_it_is(Fault fault) throws IOException {
        Sketch sketch = new Sketch();
        fault.plant.into(sketch);
        RuleTest.assertFound(fault.rule, fault.severity, fault.also, verify(sketch, fault.consumers, fault.deep));
    }

    @Test
    void every_rule_of_graphs_has_a_planted_fault() {
        Set<String> rules = new TreeSet<>();
        Verifier.RULES.stream().filter(r -> r instanceof GraphRule).forEach(r -> rules.add(r.id()));
        Set<String> planted = new TreeSet<>();
        faults().forEach(f -> planted.add(f.rule));
        IntegerRuleTest.faults().forEach(f -> planted.add(f.rule()));
        IntegerRuleTest.faultsOfWeights().forEach(f -> planted.add(f.rule()));
        assertEquals(rules, planted);
    }
}
