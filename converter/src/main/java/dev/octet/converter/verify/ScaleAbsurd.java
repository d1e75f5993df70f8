package dev.octet.converter.verify;

/** Scales too small or too large for any weight. */
final class ScaleAbsurd extends CheckpointRule {
    ScaleAbsurd() {
        super(
                "scale-absurd",
                Severity.WARNING,
                Consumer.OF_CHECKPOINTS,
                "Scales lie where those of weights and activations can: from 2^-80 to 2^60.",
                "look at the weight: it is damaged, or its scale was written in another form",
                "NVIDIA/Model-Optimizer#1397, modular/modular#6600");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.scales()
                .forEach(s -> subject.values(s.tensor()).ifPresent(v -> {
                    if (v.absurd() > 0) {
                        findings.add(
                                this,
                                "a scale is too small or too large for any weight",
                                s.tensor().name(),
                                v.absurd() + " of " + v.count() + ", from " + v.min() + " to " + v.max());
                    }
                }));
    }
}
