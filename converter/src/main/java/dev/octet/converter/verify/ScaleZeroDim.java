package dev.octet.converter.verify;

import java.util.EnumSet;

/** Scales without dimensions. */
final class ScaleZeroDim extends CheckpointRule {
    ScaleZeroDim() {
        super(
                "scale-0d",
                Severity.WARNING,
                EnumSet.of(Consumer.TRANSFORMERS),
                "A scale has at least one dimension: transformers 5.8.1 fails on a scalar.",
                "reshape it to [1]",
                "NVIDIA-NeMo/Automodel#2654");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        // ModelOpt's own shape, and transformers does not read that layout
        if (subject.settings().method() != QuantSettings.Method.MODELOPT) {
            subject.scales()
                    .filter(s -> s.ofWeight() && s.tensor().shape().rank() == 0)
                    .forEach(s -> findings.add(
                            this, "a scale has no dimensions", s.tensor().name(), "[]"));
        }
    }
}
