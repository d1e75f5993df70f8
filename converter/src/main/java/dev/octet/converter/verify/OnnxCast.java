package dev.octet.converter.verify;

import dev.octet.formats.tensor.DType;
import java.util.EnumSet;

/** Casts to 8-bit floats. */
final class OnnxCast extends GraphRule {
    OnnxCast() {
        super(
                "onnx-cast",
                Severity.ERROR,
                EnumSet.of(Consumer.TENSORRT),
                "Values become 8-bit floats by QuantizeLinear, not by Cast.",
                "replace Cast by QuantizeLinear with scale 1",
                "docs.nvidia.com: TensorRT, Working with Quantized Types");
    }

    @Override
    void check(GraphSubject subject, Findings findings) {
        subject.nodes("Cast")
                .filter(n -> DType.ofOnnxId((int) n.intAttribute("to", 0))
                        .map(DType::isFloat8)
                        .orElse(false))
                .forEach(n -> findings.add(this, "a Cast makes 8-bit floats", n.id(), ""));
    }
}
