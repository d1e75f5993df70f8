package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.StoredTensor;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** Scales under a name that another loader uses. */
final class ScaleName extends CheckpointRule {
    ScaleName() {
        super(
                "scale-name",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Scales have the names that the quant_method's loaders look for: weight_scale (compressed-tensors,"
                        + " modelopt), weight_scale_inv (fp8 with blocks), input_scale.",
                "rename the scales, or convert the checkpoint to the layout of its consumer: octet convert",
                "amd/Quark#42, vllm-project/vllm#54556, vllm-project/vllm#32859, vllm-project/vllm#5353,"
                        + " vllm-project/vllm:vllm/model_executor/layers/quantization/fp8.py,"
                        + " huggingface/transformers:src/transformers/integrations/finegrained_fp8.py");
    }

    private static final Set<Consumer> TENSORRT_LLM = EnumSet.of(Consumer.TENSORRT_LLM);
    private static final Set<Consumer> TRANSFORMERS = EnumSet.of(Consumer.TRANSFORMERS);

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        QuantSettings settings = subject.settings();
        subject.quantized().forEach(layer -> {
            switch (settings.method()) {
                case COMPRESSED_TENSORS -> {
                    expect(layer, LayerTensors.WEIGHT_SCALES, List.of("weight_scale"), consumers(), findings);
                    expect(layer, LayerTensors.GLOBAL_SCALES, List.of("weight_global_scale"), consumers(), findings);
                    String input = layer.isPacked() ? "input_global_scale" : "input_scale";
                    expect(layer, LayerTensors.INPUT_SCALES, List.of(input), consumers(), findings);
                }
                case MODELOPT -> {
                    // TensorRT-LLM takes both names for blocks
                    expect(layer, LayerTensors.WEIGHT_SCALES, List.of("weight_scale"), Consumer.VLLM_LIKE, findings);
                    expect(
                            layer,
                            LayerTensors.WEIGHT_SCALES,
                            List.of("weight_scale", "weight_scale_inv"),
                            TENSORRT_LLM,
                            findings);
                    expect(layer, LayerTensors.GLOBAL_SCALES, List.of("weight_scale_2"), consumers(), findings);
                    expect(layer, LayerTensors.INPUT_SCALES, List.of("input_scale"), consumers(), findings);
                }
                case FP8 -> fp8(layer, settings, findings);
                case NONE, OTHER -> {}
            }
        });
    }

    private void fp8(LayerTensors layer, QuantSettings settings, Findings findings) {
        boolean blocks = settings.groups().stream()
                .anyMatch(g -> g.weights() != null && g.weights().rows() > 0);
        List<String> engines = blocks ? List.of("weight_scale_inv") : List.of("weight_scale");
        expect(layer, LayerTensors.WEIGHT_SCALES, engines, Consumer.VLLM_LIKE, findings);
        expect(layer, LayerTensors.WEIGHT_SCALES, List.of("weight_scale_inv", "weight_scale"), TENSORRT_LLM, findings);
        // transformers renames DeepSeek-V4's scale
        expect(layer, LayerTensors.WEIGHT_SCALES, List.of("weight_scale_inv", "scale"), TRANSFORMERS, findings);
        expect(layer, LayerTensors.INPUT_SCALES, List.of("input_scale"), Consumer.VLLM_LIKE, findings);
        expect(layer, LayerTensors.INPUT_SCALES, List.of("activation_scale"), TRANSFORMERS, findings);
    }

    private void expect(
            LayerTensors layer, List<String> kind, List<String> wanted, Set<Consumer> readers, Findings findings) {
        Optional<StoredTensor> found = layer.first(kind);
        if (found.isPresent() && wanted.stream().noneMatch(layer::has)) {
            String part = found.get().name().substring(found.get().name().lastIndexOf('.') + 1);
            findings.add(
                    this,
                    severity(),
                    readers,
                    "a scale is called " + part + ", and " + String.join(" or ", wanted) + " is looked for",
                    found.get().name(),
                    "");
        }
    }
}
