package dev.octet.converter.verify;

/** Weights of one code only. */
final class WeightConstant extends WeightRule {
    WeightConstant() {
        super(
                "weight-constant",
                Severity.WARNING,
                Consumer.OF_CHECKPOINTS,
                "A weight has more than one value.",
                "export it again; memory that was never written looks like this",
                "amd/Quark#42, NVIDIA/Model-Optimizer#1397");
    }

    @Override
    void check(WeightFacts weight, CheckpointSubject subject, Findings findings) {
        if (weight.histogram().distinct() == 1 && weight.histogram().total() > 1) {
            findings.add(
                    this, "all codes of a weight are the same", weight.weight().name(), "");
        }
    }
}
