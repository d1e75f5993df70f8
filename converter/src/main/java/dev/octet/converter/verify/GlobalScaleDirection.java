package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.StoredTensor;

/** Global scales of NVFP4 that were written the other way round. */
final class GlobalScaleDirection extends CheckpointRule {
    GlobalScaleDirection() {
        super(
                "global-scale-direction",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "compressed-tensors stores the global scale of NVFP4 as a divisor (2688 / amax, far above 1), modelopt"
                        + " as a multiplier (amax / 2688, far below 1).",
                "store the reciprocal",
                "modular/modular#6600,"
                        + " vllm-project/compressed-tensors:src/compressed_tensors/compressors/nvfp4/base.py,"
                        + " NVIDIA/Model-Optimizer:modelopt/torch/export/quant_utils.py");
    }

    /** A weight with an amax beyond 2688 does not exist; nor does one below 1e-6 that matters. */
    private static final double BORDER = 1;

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.quantized().filter(LayerTensors::isPacked).forEach(layer -> {
            check(layer, "weight_global_scale", true, subject, findings);
            check(layer, "weight_scale_2", false, subject, findings);
        });
    }

    private void check(LayerTensors layer, String part, boolean divisor, CheckpointSubject subject, Findings findings) {
        StoredTensor scale = layer.part(part);
        if (scale == null) {
            return;
        }
        subject.values(scale).filter(ScaleFacts::sound).ifPresent(v -> {
            if (divisor ? v.max() < BORDER : v.min() > BORDER) {
                findings.add(
                        this,
                        divisor
                                ? "a global scale is a multiplier where a divisor is read"
                                : "a global scale is a divisor where a multiplier is read",
                        scale.name(),
                        v.min() + ", so the largest weight would be " + (divisor ? 2688 / v.min() : 2688 * v.min()));
            }
        });
    }
}
