package dev.octet.converter.verify;

import dev.octet.formats.tensor.DType;

/** Weights in E5M2. */
final class WeightE5m2 extends CheckpointRule {
    WeightE5m2() {
        super(
                "weight-e5m2",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Weights are E4M3: no configuration can say E5M2, and kernels read E4M3.",
                "quantise to E4M3",
                "vllm-project/compressed-tensors:src/compressed_tensors/quantization/quant_args.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.quantized()
                .filter(l -> l.weight() != null && l.weight().dtype() == DType.F8_E5M2)
                .forEach(l -> findings.add(this, "a weight is in E5M2", l.weightName(), ""));
    }
}
