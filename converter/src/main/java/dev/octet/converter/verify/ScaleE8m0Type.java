package dev.octet.converter.verify;

import dev.octet.formats.tensor.DType;
import java.util.EnumSet;

/** E8M0 scales under their own type. */
final class ScaleE8m0Type extends CheckpointRule {
    ScaleE8m0Type() {
        super(
                "scale-e8m0-type",
                Severity.WARNING,
                EnumSet.of(Consumer.VLLM, Consumer.SGLANG, Consumer.TENSORRT_LLM),
                "Scales that are powers of two are stored as U8 (MX) or F32 (fp8 with blocks): F8_E8M0 is a legal type"
                        + " that few readers know.",
                "store the same bytes as U8, or the values as F32",
                "vllm-project/compressed-tensors:src/compressed_tensors/compressors/mxfp8/base.py,"
                        + " NVIDIA/Model-Optimizer:modelopt/torch/export/quant_utils.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.scales()
                .filter(s -> s.tensor().dtype() == DType.F8_E8M0)
                .forEach(s -> findings.add(
                        this, "a scale is of type F8_E8M0", s.tensor().name(), ""));
    }
}
