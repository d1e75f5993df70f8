package dev.octet.converter.verify;

import dev.octet.formats.tensor.DType;

/** Scales that are zero or negative. */
final class ScaleNotPositive extends CheckpointRule {
    ScaleNotPositive() {
        super(
                "scale-not-positive",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Every scale is above zero.",
                "quantise the weight again; give a block of zeros the scale 1",
                "NVIDIA/Model-Optimizer#1397, pytorch/ao#4713");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.scales()
                .forEach(s -> subject.values(s.tensor()).ifPresent(v -> {
                    if (v.negative() == 0 && v.zero() > 0 && s.tensor().dtype() == DType.F8_E4M3FN) {
                        // NVFP4: next to a large block, a small one's scale rounds to zero, and so do its weights
                        findings.add(
                                this,
                                Severity.WARNING,
                                consumers(),
                                "a block scale is zero, and so its weights",
                                s.tensor().name(),
                                v.zero() + " of " + v.count());
                    } else if (v.zero() + v.negative() > 0) {
                        findings.add(
                                this,
                                "a scale is zero or negative",
                                s.tensor().name(),
                                v.zero() + " zero, " + v.negative() + " negative of " + v.count());
                    }
                }));
    }
}
