package dev.octet.converter.verify;

import java.util.Locale;

/** Codes that are not the nearest. */
final class WeightRounding extends WeightRule {
    WeightRounding() {
        super(
                "weight-rounding",
                Severity.ADVICE,
                Consumer.OF_CHECKPOINTS,
                "Every code is the one nearest to original over scale.",
                "quantise again, rounding to nearest with the scale as stored",
                "microsoft/onnxruntime#16938, vllm-project/vllm#40934");
    }

    private static final double MANY = 0.005;

    @Override
    public boolean needsOriginal() {
        return true;
    }

    @Override
    void check(WeightFacts weight, CheckpointSubject subject, Findings findings) {
        WeightFacts.Comparison c = weight.comparison();
        if (c != null && c.agrees() && !c.isTransposed() && c.roundedElsewhere() > MANY * c.sampled()) {
            findings.add(
                    this,
                    "codes are not those nearest to the original: rounded twice, or with another scale",
                    weight.weight().name(),
                    String.format(Locale.ROOT, "%d of the first %d", c.roundedElsewhere(), c.sampled()));
        }
    }
}
