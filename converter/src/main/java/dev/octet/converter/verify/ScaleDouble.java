package dev.octet.converter.verify;

import java.util.List;

/** Two scales for one weight. */
final class ScaleDouble extends CheckpointRule {
    ScaleDouble() {
        super(
                "scale-double",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "A weight has one tensor of scales: of two, each loader takes another.",
                "keep the one that its quant_method names, and remove the other",
                "amd/Quark#42, vllm-project/vllm#54556");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.quantized().forEach(layer -> {
            List<String> found =
                    LayerTensors.WEIGHT_SCALES.stream().filter(layer::has).toList();
            if (found.size() > 1) {
                findings.add(this, "a weight has two tensors of scales", layer.weightName(), String.join(", ", found));
            }
        });
    }
}
