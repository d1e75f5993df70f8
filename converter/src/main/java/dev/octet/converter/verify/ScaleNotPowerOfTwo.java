package dev.octet.converter.verify;

/** Scales that are promised to be powers of two and are not. */
final class ScaleNotPowerOfTwo extends CheckpointRule {
    ScaleNotPowerOfTwo() {
        super(
                "scale-ue8m0",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "With scale_fmt ue8m0 every block scale is a power of two: kernels keep its exponent only.",
                "round the scales up to powers of two and quantise again, or set scale_fmt to float",
                "sgl-project/sglang#25519, sgl-project/sglang#28662,"
                        + " huggingface/transformers:src/transformers/integrations/finegrained_fp8.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        if (!subject.settings().json().path("scale_fmt").asText("").equals("ue8m0")) {
            return;
        }
        subject.scales()
                .filter(CheckpointSubject.Scale::ofWeight)
                .forEach(s -> subject.values(s.tensor())
                        .filter(v -> v.notPowersOfTwo() > 0)
                        .ifPresent(v -> findings.add(
                                this,
                                "scales are promised to be powers of two, and some are not",
                                s.tensor().name(),
                                v.notPowersOfTwo() + " of " + v.count())));
    }
}
