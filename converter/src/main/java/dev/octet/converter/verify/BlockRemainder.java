package dev.octet.converter.verify;

import java.util.EnumSet;

/** Weights that blocks do not divide. */
final class BlockRemainder extends CheckpointRule {
    BlockRemainder() {
        super(
                "block-remainder",
                Severity.ERROR,
                EnumSet.of(Consumer.TRANSFORMERS),
                "Rows and columns are multiples of the block: transformers takes rows / scale rows for the block's"
                        + " height, and fails or reads wrong.",
                "leave the layer in 16 bits and list it in modules_to_not_convert (fp8) or ignore (compressed-tensors)",
                "huggingface/transformers:src/transformers/integrations/finegrained_fp8.py,"
                        + " vllm-project/compressed-tensors:src/compressed_tensors/quantization/lifecycle/forward.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.quantized().filter(LayerTensors::isLinear).forEach(layer -> {
            QuantSettings.Group group = subject.settings().group(layer.module());
            boolean own = subject.settings().method() == QuantSettings.Method.FP8
                    || subject.settings().method() == QuantSettings.Method.COMPRESSED_TENSORS;
            if (!own
                    || group == null
                    || group.weights() == null
                    || group.weights().rows() < 2
                    || layer.shape().rank() < 2) {
                return;
            }
            long rows = layer.shape().dim(-2);
            long columns = layer.shape().dim(-1);
            if (rows % group.weights().rows() != 0
                    || columns % Math.max(1, group.weights().columns()) != 0) {
                findings.add(
                        this,
                        "blocks do not divide a weight",
                        layer.weightName(),
                        layer.shape().toString());
            }
        });
    }
}
