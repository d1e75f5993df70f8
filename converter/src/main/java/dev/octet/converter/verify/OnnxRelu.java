package dev.octet.converter.verify;

import dev.octet.formats.graph.Node;
import java.util.EnumSet;

/** Activations that ONNX Runtime leaves out before a quantiser to 8-bit floats. */
final class OnnxRelu extends GraphRule {
    OnnxRelu() {
        super(
                "onnx-relu",
                Severity.ERROR,
                EnumSet.of(Consumer.ONNXRUNTIME),
                "No QuantizeLinear with a zero point of 8-bit floats stands directly behind a Relu that feeds nothing"
                    + " else: ONNX Runtime drops the Relu, as if code 0 were the smallest, and negative values pass.",
                "put a Flatten or Reshape between them, as octet quantize --target onnxruntime does, or load with basic"
                        + " optimisation or optimization.disable_specified_optimizers=ReluQuantRewrite",
                "microsoft/onnxruntime:onnxruntime/core/optimizer/qdq_transformer/relu_quantizelinear.cc");
    }

    @Override
    void check(GraphSubject subject, Findings findings) {
        subject.float8Quantizers().filter(q -> q.hasInput(2)).forEach(q -> {
            Node relu = subject.producer(q.input(0));
            if (relu != null && relu.is("Relu") && subject.readers(relu.output()) == 1) {
                findings.add(this, "a Relu is dropped before a QuantizeLinear", relu.id(), "");
            }
        });
    }
}
