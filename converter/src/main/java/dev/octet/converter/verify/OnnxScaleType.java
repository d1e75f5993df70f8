package dev.octet.converter.verify;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.EnumSet;
import java.util.Set;
import java.util.stream.Stream;

/** Scales of types without a kernel. */
final class OnnxScaleType extends GraphRule {
    OnnxScaleType() {
        super(
                "onnx-scale-type",
                Severity.ERROR,
                Consumer.OF_GRAPHS,
                "Scales of QuantizeLinear and DequantizeLinear are F32 or F16; TensorRT takes BF16, too.",
                "export the scales as F32",
                "microsoft/onnxruntime:docs/OperatorKernels.md, docs.nvidia.com: TensorRT, Working with Quantized"
                        + " Types");
    }

    private static final Set<Consumer> RUNTIME = EnumSet.of(Consumer.ONNXRUNTIME);

    @Override
    void check(GraphSubject subject, Findings findings) {
        Stream.concat(subject.nodes("QuantizeLinear"), subject.nodes("DequantizeLinear"))
                .forEach(n -> subject.constant(n.input(1)).ifPresent(s -> check(n, s.dtype(), findings)));
    }

    private void check(Node node, DType type, Findings findings) {
        if (type == DType.BF16) {
            findings.add(this, severity(), RUNTIME, "a scale is of type BF16", node.id(), "");
        } else if (type != DType.F32 && type != DType.F16) {
            findings.add(this, "a scale is of type " + type, node.id(), "");
        }
    }
}
