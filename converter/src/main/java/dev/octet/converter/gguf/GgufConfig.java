package dev.octet.converter.gguf;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.gguf.GgufFamily.Trait;
import dev.octet.converter.hf.MlpActivation;
import dev.octet.converter.hf.RotaryFactors;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.gguf.GgufValue;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Optional;
import java.util.SequencedMap;

/**
 * {@code config.json} from the keys of a file, and the keys from {@code config.json}. Source: llama.cpp, docs of GGUF and src/llama-model.cpp
 * (which keys it reads, and what it takes where one is absent).
 */
final class GgufConfig {
    /** A head of Gemma 2 27B: its scores are scaled by hidden size over heads, those of the smaller ones by the size of a head. */
    private static final int GEMMA2_27B_LAYERS = 46;

    private final GgufFamily family;
    private final List<String> notes = new ArrayList<>();

    GgufConfig(GgufFamily family) {
        this.family = family;
    }

    /** What is said of the result: what one of both programs does not know. */
    List<String> notes() {
        return List.copyOf(notes);
    }

    /**
     * The configuration of a file.
     *
     * @param vocabulary rows of the embedding
     * @param tied whether there is no output layer
     * @param factors of the rotary frequencies, {@link GgufNames#ROPE_FACTORS}; empty for none
     * @param dtype {@code float32}, {@code bfloat16} or {@code float16}
     */
    ObjectNode config(GgufKeys keys, int vocabulary, boolean tied, Optional<float[]> factors, String dtype) {
        String a = family.architecture() + ".";
        int hidden = keys.size(a + "embedding_length");
        int heads = keys.size(a + "attention.head_count");
        int layers = keys.size(a + "block_count");
        int headSize = keys.whole(a + "attention.key_length").isPresent()
                ? keys.size(a + "attention.key_length")
                : keys.whole(a + "rope.dimension_count").isPresent()
                        ? keys.size(a + "rope.dimension_count")
                        : hidden / heads;
        ObjectNode config = JsonNodeFactory.instance.objectNode();
        config.putArray("architectures").add(family.modelClass());
        config.put("model_type", family.modelType())
                .put("dtype", dtype)
                .put("vocab_size", vocabulary)
                .put("hidden_size", hidden)
                .put("intermediate_size", keys.size(a + "feed_forward_length"))
                .put("num_hidden_layers", layers)
                .put("num_attention_heads", heads)
                .put(
                        "num_key_value_heads",
                        keys.whole(a + "attention.head_count_kv").isPresent()
                                ? keys.size(a + "attention.head_count_kv")
                                : heads)
                .put("head_dim", headSize)
                .put("max_position_embeddings", keys.size(a + "context_length"))
                .put(
                        "rms_norm_eps",
                        keys.number(a + "attention.layer_norm_rms_epsilon").orElse(1e-6))
                .put("tie_word_embeddings", tied);
        config.set("rope_parameters", rotary(keys, a, headSize, factors));
        if (family.has(Trait.NORM_OFFSET)) {
            config.put("hidden_activation", MlpActivation.TANH);
        } else {
            config.put("hidden_act", "silu");
        }
        if (family == GgufFamily.GEMMA2) {
            config.put("query_pre_attn_scalar", scoreScalar(layers, hidden, heads, headSize));
            keys.number(a + "attn_logit_softcapping").ifPresent(c -> config.put("attn_logit_softcapping", c));
            keys.number(a + "final_logit_softcapping").ifPresent(c -> config.put("final_logit_softcapping", c));
            keys.whole(a + "attention.sliding_window").ifPresent(w -> config.put("sliding_window", w));
        }
        token(keys, config, "bos");
        token(keys, config, "eos");
        return config;
    }

    private static void token(GgufKeys keys, ObjectNode config, String name) {
        keys.whole("tokenizer.ggml." + name + "_token_id").ifPresent(id -> config.put(name + "_token_id", id));
    }

    private static int scoreScalar(int layers, int hidden, int heads, int headSize) {
        return layers == GEMMA2_27B_LAYERS ? hidden / heads : headSize;
    }

    private static ObjectNode rotary(GgufKeys keys, String a, int headSize, Optional<float[]> factors) {
        double theta = keys.number(a + "rope.freq_base").orElse(RotaryFactors.DEFAULT_THETA);
        String type = keys.text(a + "rope.scaling.type").orElse("none");
        if (factors.isPresent()) {
            return RotaryFactors.parameters(theta, headSize, factors.get())
                    .orElseThrow(() -> new UnsupportedModelException(
                            "the factors of the rotary frequencies are those of no known rope type",
                            keys.where() + ", tensor '" + GgufNames.ROPE_FACTORS + "'",
                            "known are those of Llama 3.1 and later"));
        }
        ObjectNode rope = JsonNodeFactory.instance.objectNode();
        switch (type) {
            case "none" -> rope.put("rope_type", "default").put("rope_theta", theta);
            case "linear" ->
                rope.put("rope_type", "linear")
                        .put("rope_theta", theta)
                        .put(
                                "factor",
                                keys.number(a + "rope.scaling.factor")
                                        .orElseThrow(() ->
                                                keys.malformed("the key " + a + "rope.scaling.factor is missing")));
            default ->
                throw new UnsupportedModelException(
                        "rope.scaling.type '" + type + "' has no counterpart here",
                        keys.where(),
                        "known are none, linear and the factors of Llama 3.1");
        }
        return rope;
    }

    /**
     * The keys of a configuration, without those of the tokenizer.
     *
     * @param where the configuration, for messages
     */
    SequencedMap<String, GgufValue> keys(ObjectNode config, String where) {
        requireActivation(config, where);
        Sizes sizes = new Sizes(config, where);
        String a = family.architecture() + ".";
        int hidden = sizes.of("hidden_size");
        int heads = sizes.of("num_attention_heads");
        int layers = sizes.of("num_hidden_layers");
        int headSize = sizes.orElse("head_dim", family.has(Trait.HEAD_SIZE) ? defaultHeadSize() : hidden / heads);
        SequencedMap<String, GgufValue> keys = new LinkedHashMap<>();
        keys.put(a + "block_count", GgufValue.of(layers));
        keys.put(a + "context_length", GgufValue.of(sizes.of("max_position_embeddings")));
        keys.put(a + "embedding_length", GgufValue.of(hidden));
        keys.put(a + "feed_forward_length", GgufValue.of(sizes.of("intermediate_size")));
        keys.put(a + "attention.head_count", GgufValue.of(heads));
        keys.put(a + "attention.head_count_kv", GgufValue.of(sizes.orElse("num_key_value_heads", heads)));
        keys.put(a + "attention.layer_norm_rms_epsilon", GgufValue.of((float)
                config.path("rms_norm_eps").asDouble(1e-6)));
        keys.put(a + "attention.key_length", GgufValue.of(headSize));
        keys.put(a + "attention.value_length", GgufValue.of(headSize));
        keys.put(a + "rope.dimension_count", GgufValue.of(headSize));
        keys.put(a + "vocab_size", GgufValue.of(sizes.of("vocab_size")));
        JsonNode rope = config.path("rope_parameters").isObject()
                ? config.path("rope_parameters")
                : config.path("rope_scaling");
        double theta =
                rope.path("rope_theta").asDouble(config.path("rope_theta").asDouble(RotaryFactors.DEFAULT_THETA));
        keys.put(a + "rope.freq_base", GgufValue.of((float) theta));
        if (rope.path("rope_type").asText(rope.path("type").asText()).equals("linear")) {
            keys.put(a + "rope.scaling.type", GgufValue.of("linear"));
            keys.put(a + "rope.scaling.factor", GgufValue.of((float)
                    rope.path("factor").asDouble(1)));
        }
        if (family == GgufFamily.GEMMA2) {
            gemma2(config, keys, where, scoreScalar(layers, hidden, heads, headSize));
        } else if (config.path("sliding_window").isIntegralNumber()
                && config.path("use_sliding_window")
                        .asBoolean(config.path("model_type").asText().equals("mistral"))) {
            notes.add("llama.cpp attends to all positions: sliding_window "
                    + config.path("sliding_window").asText() + " is left out");
        }
        return keys;
    }

    /** llama.cpp has the activation compiled in. */
    private void requireActivation(ObjectNode config, String where) {
        boolean gemma = family.has(Trait.NORM_OFFSET);
        String given = (gemma ? MlpActivation.GEMMA : MlpActivation.SILU).of(config, where);
        String expected = gemma ? MlpActivation.TANH : "silu";
        if (!given.equals(expected)) {
            throw new UnsupportedModelException(
                    "the activation is " + given + ", llama.cpp computes " + expected + " for " + family.architecture(),
                    where,
                    "serve this model with another engine");
        }
    }

    /** What transformers takes where {@code head_dim} is absent. */
    private int defaultHeadSize() {
        return family == GgufFamily.QWEN3 ? 128 : 256;
    }

    private static void gemma2(ObjectNode config, SequencedMap<String, GgufValue> keys, String where, int expected) {
        double scalar = config.path("query_pre_attn_scalar").asDouble(256);
        if (scalar != expected) {
            throw new UnsupportedModelException(
                    "query_pre_attn_scalar is " + scalar + ", llama.cpp takes " + expected
                            + " for a model of these sizes",
                    where,
                    "GGUF has no key for it: serve this model with another engine");
        }
        if (config.path("attn_logit_softcapping").isNull()
                || config.path("final_logit_softcapping").isNull()) {
            throw new UnsupportedModelException(
                    "the caps of scores or logits are off, llama.cpp has them on for gemma2",
                    where,
                    "serve this model with another engine");
        }
        keys.put("gemma2.attn_logit_softcapping", GgufValue.of((float)
                config.path("attn_logit_softcapping").asDouble(50)));
        keys.put("gemma2.final_logit_softcapping", GgufValue.of((float)
                config.path("final_logit_softcapping").asDouble(30)));
        keys.put(
                "gemma2.attention.sliding_window",
                GgufValue.of(config.path("sliding_window").asInt(4096)));
    }

    /** Sizes in a configuration. */
    private record Sizes(ObjectNode config, String where) {
        int of(String key) {
            JsonNode value = config.path(key);
            if (!value.isInt() || value.asInt() < 1) {
                throw new UnsupportedModelException(
                        key + " is " + (value.isMissingNode() ? "missing" : value.toString()) + ", not a size",
                        where,
                        "give the model's own config.json");
            }
            return value.asInt();
        }

        int orElse(String key, int fallback) {
            return config.path(key).isMissingNode() || config.path(key).isNull() ? fallback : of(key);
        }
    }
}
