package dev.octet.converter.verify;

/** Scales below the normal numbers of their type. */
final class ScaleSubnormal extends CheckpointRule {
    ScaleSubnormal() {
        super(
                "scale-subnormal",
                Severity.WARNING,
                Consumer.OF_CHECKPOINTS,
                "Scales are normal numbers: devices that flush subnormal numbers to zero lose the whole block.",
                "store scales as F32, and give blocks of zeros the scale 1",
                "NVIDIA/Model-Optimizer#1397, pytorch/ao#4713");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.scales()
                .forEach(s -> subject.values(s.tensor()).ifPresent(v -> {
                    if (v.subnormal() > 0) {
                        findings.add(
                                this,
                                "a scale is below the normal numbers of its type",
                                s.tensor().name(),
                                v.subnormal() + " of " + v.count() + " "
                                        + s.tensor().dtype() + ", smallest " + v.min());
                    }
                }));
    }
}
