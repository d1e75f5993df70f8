package dev.octet.converter.inspect;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The sizes of an architecture, as {@code config.json} of a Hugging Face folder states them. Null where it does not.
 *
 * @param modelType {@code llama}, {@code bert}
 * @param layers blocks of the network
 * @param hidden channels between the blocks
 * @param intermediate channels within the MLP of a block
 * @param heads attention heads of a block
 * @param keyValueHeads of these, heads with keys and values of their own
 * @param experts experts of a mixture
 * @param vocabulary tokens
 * @param context the most tokens of a sequence
 */
public record Dimensions(
        @Nullable String modelType,
        @Nullable Long layers,
        @Nullable Long hidden,
        @Nullable Long intermediate,
        @Nullable Long heads,
        @Nullable Long keyValueHeads,
        @Nullable Long experts,
        @Nullable Long vocabulary,
        @Nullable Long context) {
    private static final List<String> LAYERS = List.of("num_hidden_layers", "n_layer", "num_layers", "n_layers");
    private static final List<String> HIDDEN = List.of("hidden_size", "n_embd", "d_model", "dim");
    private static final List<String> INTERMEDIATE = List.of("intermediate_size", "n_inner", "ffn_dim", "d_ff");
    private static final List<String> HEADS = List.of("num_attention_heads", "n_head", "num_heads", "n_heads");
    private static final List<String> KEY_VALUE_HEADS = List.of("num_key_value_heads", "n_kv_heads");
    private static final List<String> EXPERTS = List.of("num_local_experts", "num_experts", "n_routed_experts");
    private static final List<String> VOCABULARY = List.of("vocab_size");
    private static final List<String> CONTEXT =
            List.of("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length");

    /** The sizes in a configuration; empty when it states none. Models of text and images state those of the text in a part of it. */
    public static Optional<Dimensions> of(JsonNode config) {
        JsonNode text = config.path("text_config");
        JsonNode sizes = number(config, LAYERS) == null && text.isObject() ? text : config;
        Dimensions d = new Dimensions(
                config.path("model_type").isTextual()
                        ? config.path("model_type").asText()
                        : null,
                number(sizes, LAYERS),
                number(sizes, HIDDEN),
                number(sizes, INTERMEDIATE),
                number(sizes, HEADS),
                number(sizes, KEY_VALUE_HEADS),
                number(sizes, EXPERTS),
                number(sizes, VOCABULARY),
                number(sizes, CONTEXT));
        return d.layers == null && d.hidden == null && d.vocabulary == null ? Optional.empty() : Optional.of(d);
    }

    private static @Nullable Long number(JsonNode config, List<String> keys) {
        for (String key : keys) {
            JsonNode value = config.path(key);
            if (value.isIntegralNumber() && value.canConvertToLong()) {
                return value.asLong();
            }
        }
        return null;
    }
}
