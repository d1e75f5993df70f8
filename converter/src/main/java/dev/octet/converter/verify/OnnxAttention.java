package dev.octet.converter.verify;

import dev.octet.formats.graph.Node;
import java.util.EnumSet;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Attention with one of its two products quantised. */
final class OnnxAttention extends GraphRule {
    OnnxAttention() {
        super(
                "onnx-attention",
                Severity.WARNING,
                EnumSet.of(Consumer.TENSORRT),
                "Attention is quantised around both of its products or around none: TensorRT fuses neither otherwise.",
                "quantise Q, K, V and the output of Softmax (scale 1/448), or none of them",
                "NVIDIA/TensorRT#4516, NVIDIA/Model-Optimizer:modelopt/onnx/quantization/graph_utils.py,"
                        + " docs.nvidia.com: TensorRT, Working with Quantized Types");
    }

    /** What stands between the first product and the softmax. */
    private static final List<String> BETWEEN =
            List.of("Add", "Mul", "Div", "Where", "Cast", "Reshape", "Identity", "Transpose");

    /** Nodes that are gone back through. */
    private static final int MAX_STEPS = 12;

    @Override
    void check(GraphSubject subject, Findings findings) {
        subject.nodes("MatMul").forEach(second -> {
            Node softmax = softmax(second.input(0), subject);
            Node first = softmax == null ? null : product(softmax.input(0), subject);
            if (first != null && isQuantized(first, subject) != isQuantized(second, subject)) {
                findings.add(
                        this,
                        "one of the two products of attention is quantised",
                        second.id(),
                        "the other is " + first.id());
            }
        });
    }

    private static boolean isQuantized(Node product, GraphSubject subject) {
        return subject.isDequantizedFloat8(product.input(0)) && subject.isDequantizedFloat8(product.input(1));
    }

    private static @Nullable Node softmax(String value, GraphSubject subject) {
        Node node = subject.producer(value);
        for (int step = 0; step < MAX_STEPS && node != null; step++) {
            if (node.is("Softmax")) {
                return node;
            }
            boolean passes = node.is("DequantizeLinear") || node.is("QuantizeLinear") || node.is("Cast");
            node = passes ? subject.producer(node.input(0)) : null;
        }
        return null;
    }

    private static @Nullable Node product(String value, GraphSubject subject) {
        Node node = subject.producer(value);
        for (int step = 0; step < MAX_STEPS && node != null; step++) {
            if (node.is("MatMul")) {
                return node;
            }
            Node passed = node;
            node = BETWEEN.stream().anyMatch(passed::is)
                    ? subject.producer(passed.input(passed.is("Where") ? 1 : 0))
                    : null;
        }
        return null;
    }
}
