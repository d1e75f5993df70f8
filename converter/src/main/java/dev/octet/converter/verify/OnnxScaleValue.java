package dev.octet.converter.verify;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Tensor;
import java.util.stream.Stream;

/** Scales that are zero, negative or not finite. */
final class OnnxScaleValue extends GraphRule {
    OnnxScaleValue() {
        super(
                "onnx-scale-value",
                Severity.ERROR,
                Consumer.OF_GRAPHS,
                "Scales are finite and above zero.",
                "calibrate and export again",
                "NVIDIA/Model-Optimizer#118, NVIDIA/Model-Optimizer#439, docs.nvidia.com: TensorRT, Working with"
                        + " Quantized Types");
    }

    @Override
    void check(GraphSubject subject, Findings findings) {
        Stream.concat(subject.nodes("QuantizeLinear"), subject.nodes("DequantizeLinear"))
                .forEach(n -> subject.constant(n.input(1)).ifPresent(s -> check(n, s, findings)));
    }

    private void check(Node node, Tensor scale, Findings findings) {
        if (!ScaleFacts.readable(scale.dtype())) {
            return;
        }
        ScaleFacts facts = new ScaleFacts(scale.dtype());
        facts.add(scale.bytes());
        if (facts.count() > 0 && !facts.sound()) {
            findings.add(
                    this,
                    "a scale is zero, negative or not finite",
                    node.id(),
                    (facts.nan() + facts.infinite()) + " not finite, " + facts.zero() + " zero, " + facts.negative()
                            + " negative of " + facts.count());
        }
    }
}
