package dev.octet.converter.checkpoint;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.quant.layout.AttentionInput;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * How many heads the attention layers of a model have, as {@code config.json} states it for all of them.
 *
 * @param queries heads of queries
 * @param keys heads of keys and of values, each for a group of those of queries
 */
public record HeadCounts(int queries, int keys) {
    /** Real models have a few hundred; a file made to harm may claim any number. */
    static final int MOST = 1 << 16;

    /**
     * The heads of a configuration, of its text part where it has one. Empty where it does not state them as {@code num_attention_heads}, and
     * {@code num_key_value_heads} where those are fewer.
     *
     * @param config {@code config.json}; null without one
     */
    public static Optional<HeadCounts> of(@Nullable JsonNode config) {
        if (config == null) {
            return Optional.empty();
        }
        JsonNode text = config.path("text_config").isObject() ? config.path("text_config") : config;
        int queries = text.path("num_attention_heads").asInt(0);
        int keys = text.path("num_key_value_heads").asInt(queries);
        return queries > 0 && keys > 0 ? Optional.of(new HeadCounts(queries, keys)) : Optional.empty();
    }

    /** Heads of one input. */
    public int of(AttentionInput input) {
        return switch (input) {
            case Q -> queries;
            case K, V -> keys;
        };
    }
}
