package dev.octet.converter.verify;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.formats.checkpoint.StoredTensor;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** Where the scales of the KV cache lie. Source: vllm-project/vllm:vllm/model_executor/layers/quantization/kv_cache.py. */
final class KvScales {
    /** The last part of the module that makes keys. */
    private static final Set<String> KEY_MAKERS =
            Set.of("k_proj", "qkv_proj", "query_key_value", "Wqkv", "c_attn", "kv_b_proj", "kv_a_proj_with_mqa", "key");

    private KvScales() {}

    /** Whether the configuration promises static scales. */
    static boolean promised(CheckpointSubject subject) {
        JsonNode json = subject.settings().json();
        JsonNode scheme = json.path("kv_cache_scheme");
        boolean scheduled = scheme.isObject() && !scheme.path("dynamic").asBoolean(false);
        // NVFP4 caches have scales of their own kind
        return scheduled || json.path("kv_cache_quant_algo").asText("").equals("FP8");
    }

    /** Whether each head may have a scale of its own. */
    static boolean byHead(CheckpointSubject subject) {
        return subject.settings()
                .json()
                .path("kv_cache_scheme")
                .path("strategy")
                .asText("")
                .equals("attn_head");
    }

    /** Paths of the attention layers. */
    static Set<String> attentions(CheckpointSubject subject) {
        Set<String> attentions = new LinkedHashSet<>();
        for (LayerTensors layer : subject.layers().values()) {
            if (layer.weight() != null && KEY_MAKERS.contains(layer.last())) {
                attentions.add(layer.parent());
            }
        }
        return attentions;
    }

    /** The scale of one side ({@code k}, {@code v}) under any name that vLLM takes. */
    static Optional<StoredTensor> of(CheckpointSubject subject, String attention, String side) {
        return List.of(
                        "." + side + "_scale",
                        ".attn." + side + "_scale",
                        "." + side + "_proj." + side + "_scale",
                        "." + side + "_proj.output_scale",
                        ".kv_scale",
                        ".attn.kv_scale")
                .stream()
                .map(ending -> subject.checkpoint().tensors().get(attention + ending))
                .filter(t -> t != null)
                .findFirst();
    }
}
