package dev.octet.converter.verify;

import java.util.EnumSet;

/** ModelOpt checkpoints with one of their two configurations. */
final class QuantConfigMissing extends CheckpointRule {
    QuantConfigMissing() {
        super(
                "quant-config-missing",
                Severity.WARNING,
                EnumSet.of(Consumer.VLLM, Consumer.SGLANG, Consumer.TENSORRT_LLM),
                "A modelopt checkpoint has hf_quant_config.json and quantization_config in config.json: versions of"
                        + " the engines read one or the other.",
                "write both with the same contents",
                "NVIDIA/TensorRT-LLM:tensorrt_llm/_torch/model_config.py,"
                        + " NVIDIA/Model-Optimizer:modelopt/torch/export/convert_hf_config.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        if (subject.settings().method() != QuantSettings.Method.MODELOPT) {
            return;
        }
        if (subject.quantConfig() == null) {
            findings.add(this, "there is no hf_quant_config.json", CheckpointSubject.QUANT_CONFIG, "");
        } else if (!QuantSettings.inConfig(subject.config()).isObject()) {
            findings.add(this, "config.json has no quantization_config", "config.json", "");
        }
    }
}
