package dev.octet.converter.verify;

import java.util.EnumSet;

/** Block sizes that a consumer does not know. */
final class BlockSize extends CheckpointRule {
    BlockSize() {
        super(
                "block-size",
                Severity.ERROR,
                EnumSet.of(Consumer.TENSORRT_LLM),
                "Blocks are 128 x 128: TensorRT-LLM knows no others.",
                "quantise with blocks of 128 x 128",
                "NVIDIA/TensorRT-LLM:tensorrt_llm/_torch/model_config.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        for (QuantSettings.Group group : subject.settings().groups()) {
            QuantSettings.Operand weights = group.weights();
            if (weights != null && weights.rows() > 0 && (weights.rows() != 128 || weights.columns() != 128)) {
                findings.add(
                        this, "blocks are not 128 x 128", group.name(), weights.rows() + " x " + weights.columns());
            }
        }
    }
}
