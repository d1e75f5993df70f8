package dev.octet.converter.verify;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Experts of one layer of which some are quantised. */
final class ExpertsPartial extends CheckpointRule {
    ExpertsPartial() {
        super(
                "experts-partial",
                Severity.ERROR,
                EnumSet.of(Consumer.VLLM, Consumer.SGLANG, Consumer.TENSORRT_LLM),
                "All experts of a layer are quantised or none: engines load them as one tensor.",
                "quantise or leave out all experts of the layer",
                "vllm-project/vllm#45212, vllm-project/vllm:vllm/model_executor/layers/quantization/fp8.py");
    }

    private static final String EXPERTS = ".experts.";

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        Map<String, List<LayerTensors>> blocks = new LinkedHashMap<>();
        for (LayerTensors layer : subject.layers().values()) {
            int at = layer.module().indexOf(EXPERTS);
            if (at >= 0 && layer.weight() != null) {
                blocks.computeIfAbsent(layer.module().substring(0, at) + ".experts", k -> new ArrayList<>())
                        .add(layer);
            }
        }
        blocks.forEach((block, layers) -> {
            long quantized = layers.stream().filter(subject::isQuantized).count();
            if (quantized > 0 && quantized < layers.size()) {
                findings.add(
                        this,
                        "some experts of a layer are quantised and some are not",
                        block,
                        quantized + " of " + layers.size() + " weights");
            }
        });
    }
}
