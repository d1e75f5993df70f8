package dev.octet.converter.verify;

import dev.octet.formats.tensor.DType;

/** 8-bit floats of the FNUZ kind. */
final class Fnuz extends CheckpointRule {
    Fnuz() {
        super(
                "fnuz",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Codes are E4M3FN: of FNUZ, 0x80 is NaN instead of -0 and every value half as large, and few readers"
                        + " know the types.",
                "convert the codes: octet convert",
                "triton-lang/triton#10745, onnx/onnx#5764, microsoft/onnxruntime#18473");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.checkpoint().tensors().values().stream()
                .filter(t -> t.dtype() == DType.F8_E4M3FNUZ || t.dtype() == DType.F8_E5M2FNUZ)
                .forEach(t -> findings.add(
                        this, "a tensor is of a FNUZ type", t.name(), t.dtype().toString()));
    }
}
