package dev.octet.converter.verify;

import dev.octet.quant.number.QuantType;

/** Codes at the end of their range. */
final class WeightSaturated extends WeightRule {
    WeightSaturated() {
        super(
                "weight-saturated",
                Severity.WARNING,
                Consumer.OF_CHECKPOINTS,
                "Few codes have the largest magnitude: many mean that scales are too small and values were cut.",
                "quantise again with scale = amax / 448",
                "NVIDIA/Model-Optimizer#1397");
    }

    /** Each block has its largest at the end of the range, and by chance two more. */
    private static final int PER_BLOCK = 3;

    private static final double MANY = 0.01;

    @Override
    void check(WeightFacts weight, CheckpointSubject subject, Findings findings) {
        boolean eightBits = weight.weight().codes() != QuantType.E2M1; // of sixteen numbers, the last is a common one
        long limit = Math.max(
                PER_BLOCK * weight.blocks(), (long) (MANY * weight.histogram().total()));
        if (eightBits && weight.blocks() > 0 && weight.atLimit() > limit) {
            findings.add(
                    this,
                    "many codes of a weight are at the end of their range",
                    weight.weight().name(),
                    weight.atLimit() + " of " + weight.histogram().total());
        }
    }
}
