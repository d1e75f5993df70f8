package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.StoredTensor;

/** Scales of names that no loader knows. */
final class ScaleUnknown extends CheckpointRule {
    ScaleUnknown() {
        super(
                "scale-unknown",
                Severity.WARNING,
                Consumer.OF_CHECKPOINTS,
                "Scales have names that loaders know: an unknown one is ignored, or ends the loading.",
                "rename it to what its quant_method calls it: weight_scale, weight_scale_inv, input_scale, k_scale,"
                        + " v_scale",
                "vllm-project/vllm#32859, vllm-project/vllm#5353");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        for (LayerTensors layer : subject.layers().values()) {
            for (LayerTensors.Part part : layer.parts()) {
                if (isUnknown(part.name(), part.tensor())) {
                    findings.add(
                            this,
                            "a scale has a name that loaders do not know",
                            part.tensor().name(),
                            "");
                }
            }
        }
    }

    private static boolean isUnknown(String part, StoredTensor tensor) {
        boolean scale = part.endsWith("_scale") || part.endsWith("_scale_inv") || part.endsWith("_scales");
        return scale
                && tensor.dtype().isFloat()
                && !LayerTensors.WEIGHT_SCALES.contains(part)
                && !LayerTensors.GLOBAL_SCALES.contains(part)
                && !LayerTensors.INPUT_SCALES.contains(part)
                && !LayerTensors.OTHER_SCALES.contains(part);
    }
}
