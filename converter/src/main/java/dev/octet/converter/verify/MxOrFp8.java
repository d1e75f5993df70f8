package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.DType;

/** MXFP8 that is announced as FP8, and the reverse. */
final class MxOrFp8 extends CheckpointRule {
    MxOrFp8() {
        super(
                "mx-or-fp8",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Powers of two in blocks of 32 (U8 scales) are announced as MXFP8, and nothing else is: loaders go by"
                        + " the announcement.",
                "set the format or quant_algo that the scales have",
                "sgl-project/sglang#32538, vllm-project/vllm:vllm/model_executor/layers/quantization/modelopt.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        QuantSettings settings = subject.settings();
        if (settings.method() == QuantSettings.Method.NONE || settings.method() == QuantSettings.Method.OTHER) {
            return;
        }
        subject.quantized()
                .filter(LayerTensors::isFloat8)
                .forEach(l -> l.first(LayerTensors.WEIGHT_SCALES).ifPresent(s -> check(l, s, settings, findings)));
    }

    private void check(LayerTensors layer, StoredTensor scale, QuantSettings settings, Findings findings) {
        QuantSettings.Group group = settings.group(layer.module());
        if (group == null || group.weights() == null) {
            return;
        }
        boolean announced = group.weights().groupSize() == 32;
        boolean powers = scale.dtype() == DType.U8 || scale.dtype() == DType.F8_E8M0;
        boolean mx = powers
                && scale.shape().rank() >= 2
                && layer.shape().rank() >= 2
                && scale.shape().dim(-1) == Math.ceilDiv(layer.shape().dim(-1), 32L)
                && scale.shape().dim(-2) == layer.shape().dim(-2);
        if (mx != announced) {
            findings.add(
                    this,
                    announced
                            ? "MXFP8 is announced, and the scales are none of its"
                            : "scales are those of MXFP8, and the configuration does not say so",
                    scale.name(),
                    scale.dtype() + " " + scale.shape());
        }
    }
}
