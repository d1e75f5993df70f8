package dev.octet.converter.verify;

import java.util.Locale;

/** Experts without the scale of their input. */
final class ExpertInputScale extends CheckpointRule {
    ExpertInputScale() {
        super(
                "expert-input-scale",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Every expert has an input scale, also those that calibration never reached.",
                "give the experts without one the largest of their siblings; calibrate with more samples",
                "vllm-project/vllm#45212, vllm-project/vllm#45320, vllm-project/vllm#54444");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.quantized()
                .filter(ExpertInputScale::isExpert)
                .filter(l -> InputScaleMissing.isMissing(l, subject))
                .forEach(l -> findings.add(this, "an expert has no input scale", l.module(), ""));
    }

    static boolean isExpert(LayerTensors layer) {
        return layer.module().toLowerCase(Locale.ROOT).contains("experts.");
    }
}
