package dev.octet.converter.verify;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.converter.checkpoint.LinearNames;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.quant.layout.AttentionInput;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;

/**
 * Where the scales of attention lie. Source: vllm-project/vllm:vllm/model_executor/layers/quantization/kv_cache.py, and
 * {@code compressed_tensors/compressed_tensors.py} there.
 */
final class KvScales {
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
            if (layer.weight() != null) {
                LinearNames.attention(layer.module() + ".weight").ifPresent(attentions::add);
            }
        }
        return attentions;
    }

    /** The scale of one input under any name that vLLM takes. */
    static Optional<StoredTensor> of(CheckpointSubject subject, String attention, AttentionInput input) {
        return input.names(attention).stream()
                .map(subject.checkpoint().tensors()::get)
                .filter(Objects::nonNull)
                .findFirst();
    }

    /** Whether any attention layer has a scale of one of these; some configurations cannot announce one. */
    static boolean present(CheckpointSubject subject, Set<String> attentions, Collection<AttentionInput> inputs) {
        return attentions.stream()
                .anyMatch(a ->
                        inputs.stream().anyMatch(input -> of(subject, a, input).isPresent()));
    }
}
