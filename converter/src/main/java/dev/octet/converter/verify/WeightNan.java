package dev.octet.converter.verify;

/** Codes that are NaN or infinite. */
final class WeightNan extends WeightRule {
    WeightNan() {
        super(
                "weight-nan",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "No code of a weight is NaN or infinite.",
                "quantise the weight again from a sound original",
                "NVIDIA/Model-Optimizer#1397, pytorch/ao#4713");
    }

    @Override
    void check(WeightFacts weight, CheckpointSubject subject, Findings findings) {
        if (weight.notFinite() > 0) {
            findings.add(
                    this,
                    "a weight has codes that are NaN or infinite",
                    weight.weight().name(),
                    weight.notFinite() + " of " + weight.histogram().total());
        }
    }
}
