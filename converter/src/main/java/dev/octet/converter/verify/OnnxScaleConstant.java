package dev.octet.converter.verify;

import java.util.EnumSet;
import java.util.stream.Stream;

/** Scales that are computed. */
final class OnnxScaleConstant extends GraphRule {
    OnnxScaleConstant() {
        super(
                "onnx-scale-constant",
                Severity.ERROR,
                EnumSet.of(Consumer.TENSORRT),
                "Scales are constants of the model.",
                "fold the scales into initialisers",
                "NVIDIA/Model-Optimizer#118, NVIDIA/Model-Optimizer#439, docs.nvidia.com: TensorRT, Working with"
                        + " Quantized Types");
    }

    @Override
    void check(GraphSubject subject, Findings findings) {
        Stream.concat(subject.float8Quantizers(), subject.float8Dequantizers())
                .filter(n -> subject.constant(n.input(1)).isEmpty())
                .forEach(n -> findings.add(this, "a scale is no constant", n.id(), n.input(1)));
    }
}
