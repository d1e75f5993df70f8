package dev.octet.converter.verify;

import dev.octet.formats.graph.Node;
import java.util.EnumSet;

/** Activations with more than one scale. */
final class OnnxActivationAxis extends GraphRule {
    OnnxActivationAxis() {
        super(
                "onnx-activation-axis",
                Severity.ERROR,
                EnumSet.of(Consumer.TENSORRT),
                "An activation in 8-bit floats has one scale.",
                "calibrate per tensor",
                "NVIDIA/Model-Optimizer#118, NVIDIA/TensorRT#4516, docs.nvidia.com: TensorRT, Working with Quantized"
                        + " Types");
    }

    @Override
    void check(GraphSubject subject, Findings findings) {
        subject.float8Quantizers()
                .filter(n -> subject.constant(n.input(0)).isEmpty())
                .forEach(n -> check(n, subject, findings));
    }

    private void check(Node node, GraphSubject subject, Findings findings) {
        subject.constant(node.input(1))
                .filter(s -> s.shape().elementCount() > 1)
                .ifPresent(s -> findings.add(
                        this,
                        "an activation has more than one scale",
                        node.id(),
                        s.shape().toString()));
    }
}
