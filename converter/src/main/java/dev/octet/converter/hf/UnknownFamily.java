package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.formats.error.Nearest;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** What can be said of a configuration of an unknown family: which known one it is nearest to, and what that has not. */
record UnknownFamily(HfConfig config) {
    /** What a key of a configuration tells of its model, and no family here has. */
    private static final Map<String, String> MISSING = new LinkedHashMap<>();

    static {
        MISSING.put("audio_config", "a part that hears");
        MISSING.put("alibi", "biases by distance (ALiBi)");
        MISSING.put("state_size", "state spaces");
        MISSING.put("mamba_d_state", "state spaces");
        MISSING.put("linear_num_value_heads", "linear attention");
        MISSING.put("index_topk", "sparse attention");
    }

    /** The advice for its refusal. */
    String advice(List<String> known) {
        String type = config.text("", "model_type");
        List<String> alike = Nearest.names(type, known);
        Optional<String> nearest = alike.isEmpty() ? byKeys() : Optional.of(alike.getFirst());
        List<String> missing = new ArrayList<>();
        MISSING.forEach((key, what) -> {
            JsonNode value = config.json().path(key);
            boolean has = !value.isMissingNode() && !value.isNull() && !(value.isBoolean() && !value.booleanValue());
            if (has && !missing.contains(what)) {
                missing.add(what);
            }
        });
        return nearest.map(n -> "the nearest known family is " + n + "; ").orElse("")
                + (missing.isEmpty() ? "" : "no known family has " + String.join(", ", missing) + "; ");
    }

    /** The family whose own keys the configuration has. */
    private Optional<String> byKeys() {
        JsonNode json = config.json();
        if (json.has("kv_lora_rank")) {
            return Optional.of("deepseek_v3");
        }
        if (json.has("num_experts_per_tok")) {
            return Optional.of(json.has("moe_intermediate_size") ? "qwen3_moe" : "mixtral");
        }
        if (json.has("rms_norm_eps")) {
            return Optional.of("llama");
        }
        if (json.has("n_embd")) {
            return Optional.of("gpt2");
        }
        return json.has("patch_size")
                ? Optional.of("vit")
                : json.has("type_vocab_size") ? Optional.of("bert") : Optional.empty();
    }
}
