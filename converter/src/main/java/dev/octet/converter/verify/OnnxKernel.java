package dev.octet.converter.verify;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.util.EnumSet;
import java.util.List;

/** Operators on 8-bit floats without a kernel. */
final class OnnxKernel extends GraphRule {
    OnnxKernel() {
        super(
                "onnx-kernel",
                Severity.ERROR,
                EnumSet.of(Consumer.ONNXRUNTIME),
                "Squeeze, Unsqueeze, Flatten and Pad are not applied to 8-bit floats: their schema allows it, ONNX"
                        + " Runtime on the CPU has no kernel.",
                "move them behind DequantizeLinear, or use Reshape",
                "microsoft/onnxruntime:docs/OperatorKernels.md");
    }

    private static final List<String> WITHOUT = List.of("Squeeze", "Unsqueeze", "Flatten", "Pad");

    @Override
    void check(GraphSubject subject, Findings findings) {
        for (String operator : WITHOUT) {
            subject.nodes(operator)
                    .filter(n -> isFloat8(n.input(0), subject))
                    .forEach(n -> findings.add(this, "an operator has no kernel for 8-bit floats", n.id(), operator));
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
}
