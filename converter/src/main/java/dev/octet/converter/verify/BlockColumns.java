package dev.octet.converter.verify;

import java.util.EnumSet;

/** Weights with a single column of blocks. */
final class BlockColumns extends CheckpointRule {
    BlockColumns() {
        super(
                "block-columns",
                Severity.ERROR,
                EnumSet.of(Consumer.TRANSFORMERS),
                "A compressed-tensors weight in blocks has more than one column of them: with one, its decompressor"
                        + " takes the scales for those of channels and fails.",
                "leave the layer in 16 bits and list it in ignore, or quantise by channel",
                "vllm-project/compressed-tensors:src/compressed_tensors/quantization/lifecycle/forward.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        if (subject.settings().method() != QuantSettings.Method.COMPRESSED_TENSORS) {
            return;
        }
        subject.quantized().filter(LayerTensors::isLinear).forEach(layer -> {
            QuantSettings.Group group = subject.settings().group(layer.module());
            if (group != null
                    && group.weights() != null
                    && group.weights().rows() > 1
                    && layer.shape().rank() == 2
                    && layer.shape().dim(-1) <= group.weights().columns()) {
                findings.add(
                        this,
                        "a weight has one column of blocks",
                        layer.weightName(),
                        layer.shape().toString());
            }
        });
    }
}
