package dev.octet.converter.verify;

/** Blocks of nothing but zeros. */
final class WeightZeroBlocks extends WeightRule {
    WeightZeroBlocks() {
        super(
                "weight-zero-blocks",
                Severity.ADVICE,
                Consumer.OF_CHECKPOINTS,
                "Few blocks of a weight are all zeros: many mean that small ones were rounded away.",
                "use smaller blocks, or scales of a type with more range",
                "NVIDIA/Model-Optimizer#1397, NVIDIA/Model-Optimizer:modelopt/torch/export/quant_utils.py");
    }

    private static final double MANY = 0.01;

    @Override
    void check(WeightFacts weight, CheckpointSubject subject, Findings findings) {
        if (weight.blocks() > 1
                && weight.zeroBlocks() > MANY * weight.blocks()
                && weight.histogram().distinct() > 1) {
            findings.add(
                    this,
                    "many blocks of a weight are all zeros",
                    weight.weight().name(),
                    weight.zeroBlocks() + " of " + weight.blocks());
        }
    }
}
