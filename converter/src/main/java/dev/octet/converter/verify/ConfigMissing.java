package dev.octet.converter.verify;

/** Quantised weights that no configuration speaks of. */
final class ConfigMissing extends CheckpointRule {
    ConfigMissing() {
        super(
                "config-missing",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "A checkpoint with quantised weights says how in quantization_config of config.json: without it their"
                        + " codes are read as values.",
                "write quantization_config, or dequantise the weights",
                "leejet/stable-diffusion.cpp#1898, vllm-project/vllm:vllm/model_executor/layers/quantization/fp8.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        if (subject.settings().method() == QuantSettings.Method.NONE) {
            subject.quantized()
                    .forEach(l -> findings.add(
                            this,
                            subject.config() == null
                                    ? "quantised weights and no config.json"
                                    : "quantised weights and no quantization_config",
                            l.module(),
                            String.valueOf(l.weight() == null ? "" : l.weight().dtype())));
        }
    }
}
