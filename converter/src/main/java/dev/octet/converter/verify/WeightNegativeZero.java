package dev.octet.converter.verify;

import dev.octet.quant.number.QuantType;

/** Codes that are NaN for FNUZ readers. */
final class WeightNegativeZero extends WeightRule {
    WeightNegativeZero() {
        super(
                "weight-negative-zero",
                Severity.ADVICE,
                Consumer.VLLM_LIKE,
                "No code is 0x80: it is -0 in E4M3FN and NaN in the FNUZ format of older AMD devices, whose loaders"
                        + " must replace it.",
                "write 0x00 for 0x80; the value is the same",
                "triton-lang/triton#10745, onnx/onnx#5764,"
                        + " vllm-project/vllm:vllm/model_executor/layers/quantization/fp8.py");
    }

    /** Rounding small weights to zero keeps their sign: a few of these are in every weight. */
    private static final double NORMAL_SHARE = 0.05;

    @Override
    void check(WeightFacts weight, CheckpointSubject subject, Findings findings) {
        long count =
                weight.weight().codes() == QuantType.E4M3FN ? weight.histogram().count(0x80) : 0;
        if (count > NORMAL_SHARE * weight.histogram().total()) {
            findings.add(
                    this,
                    "many codes of a weight are 0x80",
                    weight.weight().name(),
                    count + " of " + weight.histogram().total());
        }
    }
}
