package dev.octet.converter.verify;

/** Scales that fit the original only as reciprocals. */
final class WeightDirection extends WeightRule {
    WeightDirection() {
        super(
                "weight-direction",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Code times scale is the original weight, not code over scale.",
                "store the reciprocal of the scales",
                "vllm-project/vllm#36297, modular/modular#6600");
    }

    @Override
    public boolean needsOriginal() {
        return true;
    }

    @Override
    void check(WeightFacts weight, CheckpointSubject subject, Findings findings) {
        WeightFacts.Comparison c = weight.comparison();
        if (c != null && !c.agrees() && c.reciprocal() <= WeightFacts.Comparison.ROUNDING) {
            findings.add(
                    this,
                    "scales fit the original as reciprocals only",
                    weight.weight().name(),
                    WeightDiffers.errors(c.asStored(), c.reciprocal()));
        }
    }
}
