package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.StoredTensor;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** Scales under a name that another loader uses. */
final class ScaleName {
    static final CheckpointRule RULE = Demand.error("scale-name", Consumer.OF_CHECKPOINTS)
            .text("Scales have the names that the quant_method's loaders look for: weight_scale (compressed-tensors,"
                    + " modelopt), weight_scale_inv (fp8 with blocks), input_scale.")
            .fix("rename the scales, or convert the checkpoint to the layout of its consumer: octet convert")
            .source("amd/Quark#42, vllm-project/vllm#54556, vllm-project/vllm#32859, vllm-project/vllm#5353,"
                    + " vllm-project/vllm:vllm/model_executor/layers/quantization/fp8.py,"
                    + " huggingface/transformers:src/transformers/integrations/finegrained_fp8.py")
            .onCheckpoints(ScaleName::check);

    private static final Set<Consumer> TENSORRT_LLM = EnumSet.of(Consumer.TENSORRT_LLM);

    private static final Set<Consumer> TRANSFORMERS = EnumSet.of(Consumer.TRANSFORMERS);

    private ScaleName() {}

    private static void check(CheckpointSubject subject, Report report) {
        QuantSettings settings = subject.settings();
        subject.quantized().forEach(layer -> {
            switch (settings.method()) {
                case COMPRESSED_TENSORS -> {
                    expect(layer, LayerTensors.WEIGHT_SCALES, List.of("weight_scale"), RULE.consumers(), report);
                    expect(layer, LayerTensors.GLOBAL_SCALES, List.of("weight_global_scale"), RULE.consumers(), report);
                    String input = layer.isPacked() ? "input_global_scale" : "input_scale";
                    expect(layer, LayerTensors.INPUT_SCALES, List.of(input), RULE.consumers(), report);
                }
                case MODELOPT -> {
                    // TensorRT-LLM takes both names for blocks
                    expect(layer, LayerTensors.WEIGHT_SCALES, List.of("weight_scale"), Consumer.VLLM_LIKE, report);
                    expect(
                            layer,
                            LayerTensors.WEIGHT_SCALES,
                            List.of("weight_scale", "weight_scale_inv"),
                            TENSORRT_LLM,
                            report);
                    expect(layer, LayerTensors.GLOBAL_SCALES, List.of("weight_scale_2"), RULE.consumers(), report);
                    expect(layer, LayerTensors.INPUT_SCALES, List.of("input_scale"), RULE.consumers(), report);
                }
                case FP8 -> fp8(layer, settings, report);
                case NONE, OTHER -> {}
            }
        });
    }

    private static void fp8(LayerTensors layer, QuantSettings settings, Report report) {
        List<String> engines = settings.hasBlocks() ? List.of("weight_scale_inv") : List.of("weight_scale");
        expect(layer, LayerTensors.WEIGHT_SCALES, engines, Consumer.VLLM_LIKE, report);
        expect(layer, LayerTensors.WEIGHT_SCALES, List.of("weight_scale_inv", "weight_scale"), TENSORRT_LLM, report);
        // transformers renames DeepSeek-V4's scale
        expect(layer, LayerTensors.WEIGHT_SCALES, List.of("weight_scale_inv", "scale"), TRANSFORMERS, report);
        expect(layer, LayerTensors.INPUT_SCALES, List.of("input_scale"), Consumer.VLLM_LIKE, report);
        expect(layer, LayerTensors.INPUT_SCALES, List.of("activation_scale"), TRANSFORMERS, report);
    }

    private static void expect(
            LayerTensors layer, List<String> kind, List<String> wanted, Set<Consumer> readers, Report report) {
        Optional<StoredTensor> found = layer.first(kind);
        if (found.isPresent() && wanted.stream().noneMatch(layer::has)) {
            String part = found.get().name().substring(found.get().name().lastIndexOf('.') + 1);
            report.add(
                    readers,
                    "a scale is called " + part + ", and " + String.join(" or ", wanted) + " is looked for",
                    found.get().name(),
                    "");
        }
    }
}
