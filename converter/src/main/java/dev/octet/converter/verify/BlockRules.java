package dev.octet.converter.verify;

import java.util.Set;

/** Weights in blocks, whose sizes the blocks or the kernels of engines do not divide. */
final class BlockRules {
    /** Weights that blocks do not divide. */
    static final CheckpointRule REMAINDER = Demand.error("block-remainder", Consumer.TRANSFORMERS)
            .text("Rows and columns are multiples of the block: transformers takes rows / scale rows for the"
                    + " block's height, and fails or reads wrong values.")
            .fix("leave the layer in 16 bits and list it in modules_to_not_convert (fp8) or ignore"
                    + " (compressed-tensors)")
            .source("huggingface/transformers:src/transformers/integrations/finegrained_fp8.py,"
                    + " vllm-project/compressed-tensors:src/compressed_tensors/quantization/lifecycle/forward.py")
            .onCheckpoints(BlockRules::remainder);

    private static void remainder(CheckpointSubject subject, Report report) {
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
                report.add(
                        "blocks do not divide a weight",
                        layer.weightName(),
                        layer.shape().toString());
            }
        });
    }

    /** Weights with a single column of blocks. */
    static final CheckpointRule COLUMNS = Demand.error("block-columns", Consumer.TRANSFORMERS)
            .text("A compressed-tensors weight in blocks has more than one column of them: with a single"
                    + " column, its decompressor takes the scales for per-channel scales and fails.")
            .fix("leave the layer in 16 bits and list it in ignore, or quantise by channel")
            .source("vllm-project/compressed-tensors:src/compressed_tensors/quantization/lifecycle/forward.py")
            .onCheckpoints(BlockRules::columns);

    private static void columns(CheckpointSubject subject, Report report) {
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
                report.add(
                        "a weight has one column of blocks",
                        layer.weightName(),
                        layer.shape().toString());
            }
        });
    }

    /** Weights of packed integers whose sizes the engines' kernels do not take. */
    static final CheckpointRule PACKED = Demand.warning("packed-kernel", Consumer.VLLM, Consumer.SGLANG)
            .text("Packed integers have groups of 32, 64 or 128 inputs or one scale per output, a multiple of 64"
                    + " outputs and of 128 inputs: the Marlin kernels of engines take no others, and slower"
                    + " kernels take some.")
            .fix("leave the layer in 16 bits (octet quantize --keep REGEX), or quantise it with groups of another"
                    + " size or in eight bits")
            .source("vllm-project/vllm:vllm/model_executor/layers/quantization/utils/marlin_utils.py,"
                    + " sgl-project/sglang:python/sglang/srt/layers/quantization/marlin_utils.py")
            .onCheckpoints(BlockRules::packed);

    private static final Set<Long> PACKED_GROUPS = Set.of(32L, 64L, 128L);
    private static final int PACKED_OUTPUTS = 64;
    private static final int PACKED_INPUTS = 128;

    private static void packed(CheckpointSubject subject, Report report) {
        if (subject.settings().method() != QuantSettings.Method.COMPRESSED_TENSORS) {
            return;
        }
        subject.quantized().filter(LayerTensors::isInWords).forEach(layer -> {
            QuantSettings.Group group = subject.settings().group(layer.module());
            if (group == null || group.weights() == null || layer.shape().rank() != 2) {
                return;
            }
            long size = group.weights().groupSize();
            if (group.weights().strategy().equals("group") && !PACKED_GROUPS.contains(size)) {
                report.add(
                        "groups of a size that no kernel of the engines takes",
                        layer.weightName(),
                        "groups of " + size);
            } else if (layer.shape().dim(0) % PACKED_OUTPUTS != 0
                    || layer.shape().dim(1) % PACKED_INPUTS != 0) {
                report.add(
                        "a weight has a size that the Marlin kernels do not take",
                        layer.weightName(),
                        layer.shape().toString());
            }
        });
    }

    private BlockRules() {}
}
