package dev.octet.converter.inspect;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Recognises quantised layers in a graph: a product with quantised constants counts as a Linear. For canonical graphs, whose constants
 * are initializers.
 */
public final class QuantizedLayers {
    /** Operators that do not change numbers; they may stand between a weight and its product, or a norm and its QuantizeLinear. */
    private static final Set<String> CARRYING = Set.of("Identity", "Cast", "Transpose", "Reshape", "Flatten");

    private static final String QUANTIZE = "QuantizeLinear";

    private final GraphEdit graph;

    /** Of a canonical graph. */
    public QuantizedLayers(Graph graph) {
        this.graph = GraphEdit.of(graph);
    }

    /**
     * {@code MatMul} and {@code Gemm} whose second factor is a DequantizeLinear of constant codes, or of a constant that a QuantizeLinear
     * quantises; products of integers with constant codes ({@code QLinearMatMul}, {@code MatMulInteger}, ONNX Runtime's own).
     */
    public int linears() {
        return (int) graph.nodes().stream().filter(this::isLinear).count();
    }

    /** {@code Conv} and {@code ConvTranspose} with such weights, and convolutions of integers ({@code QLinearConv}, {@code ConvInteger}). */
    public int convolutions() {
        return (int) graph.nodes().stream()
                .filter(n -> isOf(WeightOperator.Kind.CONVOLUTION, n))
                .count();
    }

    private boolean isLinear(Node n) {
        return !n.domain().equals(Node.OCTET_DOMAIN) && isOf(WeightOperator.Kind.LINEAR, n);
    }

    private boolean isOf(WeightOperator.Kind kind, Node n) {
        WeightOperator operator = WeightOperator.of(n).orElse(null);
        if (operator == null || operator.kind() != kind) {
            return false;
        }
        String weight = n.input(operator.weight());
        return operator.reads() == WeightOperator.Reads.FLOATS
                ? isDequantizedConstant(weight)
                : constant(weight).isPresent();
    }

    private boolean isDequantizedConstant(String value) {
        Node dequantize = carriedFrom(value);
        if (dequantize == null || !dequantize.is("DequantizeLinear")) {
            return false;
        }
        Node quantize = graph.producer(dequantize.input(0));
        String codes = quantize != null && quantize.is(QUANTIZE) ? quantize.input(0) : dequantize.input(0);
        return constant(codes).isPresent();
    }

    private Optional<Tensor> constant(String value) {
        return Optional.ofNullable(graph.initializer(value)).flatMap(Initializer::tensor);
    }

    /** The node that computes a value, skipping nodes that only carry it. */
    private @Nullable Node carriedFrom(String value) {
        Set<String> seen = new HashSet<>();
        String at = value;
        Node producer = graph.producer(at);
        while (producer != null && isCarrying(producer) && seen.add(at)) {
            at = producer.input(0);
            producer = graph.producer(at);
        }
        return producer;
    }

    private static boolean isCarrying(Node n) {
        return n.domain().isEmpty() && CARRYING.contains(n.opType());
    }

    /** Number of canonical normalisations of this operator whose output goes to a QuantizeLinear to 8-bit floats. */
    int normsHandingOnFp8(String opType) {
        return (int) graph.nodes().stream()
                .filter(n -> n.isOctet(opType))
                .filter(n -> isHandedOnInFp8(n.output(0)))
                .count();
    }

    private boolean isHandedOnInFp8(String value) {
        Deque<String> open = new ArrayDeque<>(Set.of(value));
        Set<String> seen = new HashSet<>();
        while (!open.isEmpty()) {
            String at = open.removeLast();
            if (!seen.add(at)) {
                continue;
            }
            for (Node reader : graph.consumers(at)) {
                if (isCarrying(reader)) {
                    open.add(reader.output(0));
                } else if (reader.is(QUANTIZE) && reader.input(0).equals(at) && makesFloat8(reader)) {
                    return true;
                }
            }
        }
        return false;
    }

    private boolean makesFloat8(Node quantize) {
        Optional<DType> stated = DType.ofOnnxId((int) quantize.intAttribute("output_dtype", 0));
        return stated.or(() -> constant(quantize.input(2)).map(Tensor::dtype))
                .map(DType::isFloat8)
                .orElse(false);
    }
}
