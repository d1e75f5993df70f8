package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.StoredTensor;

/** Scales without a weight. */
final class ScaleOrphan extends CheckpointRule {
    ScaleOrphan() {
        super(
                "scale-orphan",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Every scale has its weight, stored as codes.",
                "restore the weight, or remove the scale with it",
                "amd/Quark#42, vllm-project/vllm#54556");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.scales().filter(s -> s.ofWeight() || s.ofInput()).forEach(s -> check(s, subject, findings));
    }

    private void check(CheckpointSubject.Scale scale, CheckpointSubject subject, Findings findings) {
        StoredTensor weight = scale.layer().weight();
        if (weight == null && !subject.lost(scale.layer().module() + ".weight")) {
            findings.add(this, "a scale has no weight", scale.tensor().name(), "");
        } else if (scale.ofWeight() && scale.layer().isPlain()) {
            findings.add(
                    this,
                    "a weight with a scale is not stored as codes",
                    scale.layer().weightName(),
                    String.valueOf(
                            scale.layer().weight() == null
                                    ? ""
                                    : scale.layer().weight().dtype()));
        }
    }
}
