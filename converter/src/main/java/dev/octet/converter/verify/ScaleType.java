package dev.octet.converter.verify;

import dev.octet.formats.tensor.DType;

/** Number types of scales. */
final class ScaleType extends CheckpointRule {
    ScaleType() {
        super(
                "scale-type",
                Severity.WARNING,
                Consumer.OF_CHECKPOINTS,
                "Scales are F32; in compressed-tensors of the model's type, which transformers gives the weights that"
                        + " it unpacks; U8 or E4M3 for blocks of MX and NVFP4.",
                "store the scales as F32, in compressed-tensors as the model's dtype: octet quantize, octet convert",
                "HabanaAI/vllm-fork#2141, InternLM/lmdeploy#4261, InternLM/lmdeploy#4276,"
                        + " vllm-project/compressed-tensors:src/compressed_tensors/quantization/lifecycle/forward.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        QuantSettings.Method method = subject.settings().method();
        // without a method there is no reader yet
        boolean compressed = method == QuantSettings.Method.COMPRESSED_TENSORS || method == QuantSettings.Method.NONE;
        subject.scales().forEach(s -> {
            DType type = s.tensor().dtype();
            switch (type) {
                case F32, U8, F8_E8M0, F8_E4M3FN -> {}
                case BF16, F16 -> {
                    if (!compressed) {
                        report(s, Severity.WARNING, findings);
                    }
                }
                default -> report(s, Severity.ERROR, findings);
            }
        });
    }

    private void report(CheckpointSubject.Scale scale, Severity severity, Findings findings) {
        findings.add(
                this,
                severity,
                consumers(),
                "a scale is of type " + scale.tensor().dtype() + ", which not every reader takes",
                scale.tensor().name(),
                "");
    }
}
