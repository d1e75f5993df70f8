package dev.octet.converter.verify;

import dev.octet.formats.tensor.DType;
import java.util.Set;

/** Weights of another number type than the configuration says. */
final class WeightFormat extends CheckpointRule {
    WeightFormat() {
        super(
                "weight-format",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Quantised weights have the number type that format and num_bits, or quant_algo, say.",
                "write the configuration of the layout that the tensors are in, or convert them",
                "vllm-project/llm-compressor#958, ml-explore/mlx-lm#1865,"
                    + " vllm-project/vllm:vllm/model_executor/layers/quantization/compressed_tensors/compressed_tensors.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.quantized().forEach(layer -> {
            QuantSettings.Group group = subject.settings().group(layer.module());
            if (group == null || group.weights() == null || layer.weight() == null) {
                return;
            }
            Set<DType> wanted = wanted(group.weights(), layer);
            if (!wanted.isEmpty() && !wanted.contains(layer.weight().dtype())) {
                findings.add(
                        this,
                        "weights are of another type than the configuration says",
                        layer.weight().name(),
                        layer.weight().dtype() + ", and the configuration says "
                                + group.weights().bits()
                                + (group.weights().isFloat() ? "-bit floats" : "-bit integers"));
            }
        });
    }

    private static Set<DType> wanted(QuantSettings.Operand weights, LayerTensors layer) {
        if (weights.isFloat8()) {
            return Set.of(DType.F8_E4M3FN, DType.F8_E5M2, DType.F8_E4M3FNUZ, DType.F8_E5M2FNUZ);
        }
        if (weights.isFloat4()) {
            return Set.of(DType.U8, DType.F4_E2M1);
        }
        // weight_packed holds words, whatever the width of its codes
        return layer.isInWords() ? Set.of(DType.I32) : weights.bits() == 8 ? Set.of(DType.I8) : Set.of();
    }
}
