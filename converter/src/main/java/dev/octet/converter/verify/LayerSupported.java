package dev.octet.converter.verify;

import dev.octet.converter.checkpoint.TensorRole;
import java.util.List;
import java.util.Set;
import java.util.function.BiPredicate;

/** Layers that an engine does not load quantised, though it knows the method. */
final class LayerSupported {
    static final CheckpointRule RULE = Demand.error("layer-supported", Consumer.VLLM)
            .text("A quantised layer is one that the engine's code for this architecture loads quantised.")
            .fix("leave the layer as it is: octet quantize --keep REGEX; or choose another recipe")
            .source("vllm-project/vllm:vllm/model_executor/models/gpt_oss.py,"
                    + " vllm-project/vllm:vllm/model_executor/models/gpt_neox.py,"
                    + " vllm-project/vllm:vllm/model_executor/models/bloom.py,"
                    + " vllm-project/vllm:vllm/model_executor/models/falcon.py,"
                    + " vllm-project/vllm:vllm/model_executor/layers/mamba/mamba_mixer.py")
            .onCheckpoints(LayerSupported::check);

    private static final List<Unloaded> UNLOADED = List.of(
            new Unloaded(
                    Set.of("gpt_oss"),
                    (l, _) -> l.role() == TensorRole.FUSED_EXPERTS,
                    "vLLM loads the experts of gpt-oss as MXFP4 or not quantised: their scales stay unset"),
            new Unloaded(
                    Set.of("gpt_neox", "bloom"),
                    (l, w) -> l.last().equals("query_key_value") && (isBlocks(w) || w.isFloat4()),
                    "vLLM sorts the rows of query_key_value by heads, and its scales as if they had as many rows"),
            new Unloaded(
                    Set.of("falcon"),
                    (l, w) -> l.last().equals("query_key_value") && isBlocks(w),
                    "vLLM sorts the rows of query_key_value by heads, and its scales as if they had as many rows"),
            new Unloaded(
                    Set.of("mamba", "falcon_mamba", "jamba"),
                    (l, _) -> l.last().equals("dt_proj"),
                    "vLLM builds dt_proj without quantisation, as its kernel adds the bias"));

    private LayerSupported() {}

    private static void check(CheckpointSubject subject, Report report) {
        if (subject.config() == null) {
            return;
        }
        String model = subject.config().path("model_type").asText("");
        for (Unloaded unloaded : UNLOADED) {
            if (unloaded.models().contains(model)) {
                subject.quantized().forEach(layer -> {
                    QuantSettings.Group group = subject.settings().group(layer.module());
                    if (group != null
                            && group.weights() != null
                            && unloaded.layer().test(layer, group.weights())) {
                        report.add(
                                unloaded.what(),
                                layer.weightName(),
                                layer.shape().toString());
                    }
                });
            }
        }
    }

    /**
     * What vLLM's code for some architectures does not load.
     *
     * @param models values of {@code model_type}
     */
    private record Unloaded(Set<String> models, BiPredicate<LayerTensors, QuantSettings.Operand> layer, String what) {}

    private static boolean isBlocks(QuantSettings.Operand weights) {
        return weights.rows() > 1;
    }
}
