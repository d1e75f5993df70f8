package dev.octet.converter.verify;

/** NaN and infinite scales. */
final class ScaleNotFinite extends CheckpointRule {
    ScaleNotFinite() {
        super(
                "scale-not-finite",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Every scale is a finite number; of E8M0, code 255 is NaN.",
                "quantise the weight again; an amax of NaN or infinity comes from the weight itself",
                "NVIDIA/Model-Optimizer#1397, pytorch/ao#4713, sgl-project/sglang#25519, OCP Microscaling Formats v1.0"
                        + " section 5.4.1");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.scales()
                .forEach(s -> subject.values(s.tensor()).ifPresent(v -> {
                    if (v.nan() + v.infinite() > 0) {
                        findings.add(
                                this,
                                "a scale is not a finite number",
                                s.tensor().name(),
                                v.nan() + " NaN, " + v.infinite() + " infinite of " + v.count());
                    }
                }));
    }
}
