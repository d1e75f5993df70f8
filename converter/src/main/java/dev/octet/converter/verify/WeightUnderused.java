package dev.octet.converter.verify;

/** Weights that use little of their codes' range. */
final class WeightUnderused extends WeightRule {
    WeightUnderused() {
        super(
                "weight-underused",
                Severity.ADVICE,
                Consumer.OF_CHECKPOINTS,
                "The largest code of a weight is near the end of its range: else precision at the small end is lost.",
                "quantise again with scale = amax / 448",
                "NVIDIA/Model-Optimizer:modelopt/onnx/quantization/fp8.py");
    }

    @Override
    void check(WeightFacts weight, CheckpointSubject subject, Findings findings) {
        float range = weight.weight().codes().maxValue();
        float largest = weight.largest();
        // scales that are powers of two leave up to half of the range
        if (largest > 0 && largest < 0.49f * range && weight.histogram().distinct() > 1) {
            findings.add(
                    this,
                    "a weight uses less than half of its codes' range",
                    weight.weight().name(),
                    "largest " + largest + " of " + range);
        }
    }
}
