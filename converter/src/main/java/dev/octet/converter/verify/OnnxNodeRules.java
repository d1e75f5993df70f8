package dev.octet.converter.verify;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Nodes that a runtime fuses, drops or has no kernel for. */
final class OnnxNodeRules {
    /** Products of dequantised 8-bit floats that ONNX Runtime turns into integer kernels. */
    static final GraphRule FUSION = Demand.error("onnx-fusion", Consumer.ONNXRUNTIME)
            .text("No F32 MatMul, and no Gemm without a float bias, has all its inputs from DequantizeLinear of 8-bit"
                    + " floats: ONNX Runtime fuses them into an integer kernel and then refuses its own graph.")
            .fix("export Gemm with a bias of zeros, or load with session.disable_quant_qdq=1 or basic optimisation;"
                    + " octet quantize --target onnxruntime does the first")
            .source("microsoft/onnxruntime#22269")
            .onGraphs(OnnxNodeRules::fusion);

    private static void fusion(GraphSubject subject, Report report) {
        subject.nodes("MatMul")
                .filter(n -> isFused(n, subject))
                .forEach(n -> report.add("a MatMul has both its inputs in 8-bit floats", n.id(), ""));
        subject.nodes("Gemm")
                .filter(n -> isFused(n, subject))
                .filter(n -> !n.hasInput(2) || subject.isDequantizedFloat8(n.input(2)))
                .forEach(n -> report.add("a Gemm has all its inputs in 8-bit floats, and no float bias", n.id(), ""));
    }

    private static boolean isFused(Node node, GraphSubject subject) {
        boolean both = subject.isDequantizedFloat8(node.input(0)) && subject.isDequantizedFloat8(node.input(1));
        boolean activation =
                subject.isQuantizedActivation(node.input(0)) || subject.isQuantizedActivation(node.input(1));
        return both && activation && isF32(node, subject);
    }

    /** Models in F16 are left alone by the fusion. */
    private static boolean isF32(Node node, GraphSubject subject) {
        Node dequantize = subject.producer(node.input(0));
        return dequantize != null
                && subject.constant(dequantize.input(1))
                        .map(Tensor::dtype)
                        .orElse(DType.F32)
                        .equals(DType.F32);
    }

    /** Activations that ONNX Runtime leaves out before a quantiser to 8-bit floats. */
    static final GraphRule RELU = Demand.error("onnx-relu", Consumer.ONNXRUNTIME)
            .text("No QuantizeLinear with a zero point of 8-bit floats directly follows a Relu that feeds"
                    + " nothing else: ONNX Runtime drops the Relu, as if code 0 were the smallest, and negative"
                    + " values pass.")
            .fix("put a Flatten or Reshape between them, as octet quantize --target onnxruntime does, or load with"
                    + " basic optimisation or optimization.disable_specified_optimizers=ReluQuantRewrite")
            .source("microsoft/onnxruntime:onnxruntime/core/optimizer/qdq_transformer/relu_quantizelinear.cc")
            .onGraphs(OnnxNodeRules::relu);

    private static void relu(GraphSubject subject, Report report) {
        subject.float8Quantizers().filter(q -> q.hasInput(2)).forEach(q -> {
            Node relu = subject.producer(q.input(0));
            if (relu != null && relu.is("Relu") && subject.readers(relu.output()) == 1) {
                report.add("a Relu is dropped before a QuantizeLinear", relu.id(), "");
            }
        });
    }

    /** Operators on 8-bit floats without a kernel. */
    static final GraphRule KERNEL = Demand.error("onnx-kernel", Consumer.ONNXRUNTIME)
            .text("Squeeze, Unsqueeze, Flatten and Pad are not applied to 8-bit floats: their schema allows it,"
                    + " but ONNX Runtime on the CPU lacks the kernels.")
            .fix("move them behind DequantizeLinear, or use Reshape")
            .source("microsoft/onnxruntime:docs/OperatorKernels.md")
            .onGraphs(OnnxNodeRules::kernel);

    private static final List<String> WITHOUT = List.of("Squeeze", "Unsqueeze", "Flatten", "Pad");

    private static void kernel(GraphSubject subject, Report report) {
        for (String operator : WITHOUT) {
            subject.nodes(operator)
                    .filter(n -> isFloat8(n.input(0), subject))
                    .forEach(n -> report.add("an operator has no kernel for 8-bit floats", n.id(), operator));
        }
    }

    private static boolean isFloat8(String value, GraphSubject subject) {
        if (subject.constant(value).map(Tensor::dtype).filter(DType::isFloat8).isPresent()) {
            return true;
        }
        Node producer = subject.producer(value);
        DType made = producer != null && producer.is("QuantizeLinear") ? subject.output(producer) : null;
        return made != null && made.isFloat8();
    }

    /** Attention with one of its two products quantised. */
    static final GraphRule ATTENTION = Demand.warning("onnx-attention", Consumer.TENSORRT)
            .text("Attention is quantised around both of its products or around none: TensorRT fuses neither"
                    + " otherwise.")
            .fix("quantise Q, K, V and the output of Softmax (scale 1/448 in E4M3, 1/127 in INT8), or none of them")
            .source("NVIDIA/TensorRT#4516, NVIDIA/Model-Optimizer:modelopt/onnx/quantization/graph_utils.py,"
                    + " docs.nvidia.com: TensorRT, Working with Quantized Types")
            .onGraphs(OnnxNodeRules::attention);

    /** What stands between the first product and the softmax. */
    private static final List<String> BETWEEN =
            List.of("Add", "Mul", "Div", "Where", "Cast", "Reshape", "Identity", "Transpose");

    /** Nodes that the search goes back through. */
    private static final int MAX_STEPS = 12;

    private static void attention(GraphSubject subject, Report report) {
        subject.nodes("MatMul").forEach(second -> {
            Node softmax = softmax(second.input(0), subject);
            Node first = softmax == null ? null : product(softmax.input(0), subject);
            if (first != null && isQuantized(first, subject) != isQuantized(second, subject)) {
                report.add(
                        "one of the two products of attention is quantised", second.id(), "the other is " + first.id());
            }
        });
    }

    private static boolean isQuantized(Node product, GraphSubject subject) {
        return subject.isDequantized(product.input(0)) && subject.isDequantized(product.input(1));
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

    private OnnxNodeRules() {}
}
