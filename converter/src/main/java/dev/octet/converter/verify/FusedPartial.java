package dev.octet.converter.verify;

import java.util.EnumSet;
import java.util.List;
import java.util.stream.Collectors;

/** Fused modules of which some are quantised. */
final class FusedPartial extends CheckpointRule {
    FusedPartial() {
        super(
                "fused-partial",
                Severity.ERROR,
                EnumSet.of(Consumer.VLLM, Consumer.SGLANG, Consumer.TENSORRT_LLM),
                "Modules that are loaded as one matrix (q, k, v; gate, up) are all quantised or none: engines refuse a"
                        + " mixture.",
                "quantise or leave out the whole group",
                "vllm-project/vllm:vllm/model_executor/layers/quantization/fp8.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.fusedGroups().forEach((name, group) -> {
            List<String> quantized = group.stream()
                    .filter(subject::isQuantized)
                    .map(LayerTensors::last)
                    .toList();
            if (!quantized.isEmpty() && quantized.size() < group.size()) {
                findings.add(
                        this,
                        "some modules of a fused group are quantised and some are not",
                        name,
                        "quantised: " + String.join(", ", quantized) + " of "
                                + group.stream().map(LayerTensors::last).collect(Collectors.joining(", ")));
            }
        });
    }
}
