package dev.octet.converter.verify;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.util.EnumSet;

/** Products of dequantised 8-bit floats that ONNX Runtime turns into integer kernels. */
final class OnnxFusion extends GraphRule {
    OnnxFusion() {
        super(
                "onnx-fusion",
                Severity.ERROR,
                EnumSet.of(Consumer.ONNXRUNTIME),
                "No F32 MatMul, and no Gemm without a float bias, has all its inputs from DequantizeLinear of 8-bit"
                        + " floats: ONNX Runtime fuses them into an integer kernel and then refuses its own graph.",
                "export Gemm with a bias of zeros, or load with session.disable_quant_qdq=1 or basic optimisation;"
                        + " octet quantize --target onnxruntime does the first",
                "microsoft/onnxruntime#22269");
    }

    @Override
    void check(GraphSubject subject, Findings findings) {
        subject.nodes("MatMul")
                .filter(n -> isFused(n, subject))
                .forEach(n -> findings.add(this, "a MatMul has both its inputs in 8-bit floats", n.id(), ""));
        subject.nodes("Gemm")
                .filter(n -> isFused(n, subject))
                .filter(n -> !n.hasInput(2) || subject.isDequantizedFloat8(n.input(2)))
                .forEach(n ->
                        findings.add(this, "a Gemm has all its inputs in 8-bit floats, and no float bias", n.id(), ""));
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
}
