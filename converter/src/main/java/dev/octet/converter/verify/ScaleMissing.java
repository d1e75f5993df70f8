package dev.octet.converter.verify;

/** Codes without a scale. */
final class ScaleMissing extends CheckpointRule {
    ScaleMissing() {
        super(
                "scale-missing",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Every weight of 8-bit floats or smaller codes has a scale: where it is missing, loaders keep what was"
                        + " in memory.",
                "restore the scale from the export it came from, or quantise the weight again",
                "amd/Quark#42, vllm-project/vllm#54556, unslothai/unsloth#6200, leejet/stable-diffusion.cpp#1898");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.quantized()
                .filter(l -> l.first(LayerTensors.WEIGHT_SCALES).isEmpty())
                .filter(l -> LayerTensors.WEIGHT_SCALES.stream().noneMatch(s -> subject.lost(l.module() + "." + s)))
                .forEach(l -> findings.add(this, "a quantised weight has no scale", l.weightName(), ""));
    }
}
