package dev.octet.formats.peft;

import dev.octet.formats.error.MalformedModelException;
import java.util.Optional;
import java.util.OptionalInt;
import org.jspecify.annotations.Nullable;

/**
 * The keys of an adapter of virtual tokens (prompt tuning, P-tuning, prefix tuning), with PEFT's defaults. PEFT fills in what depends on the
 * base when it makes the adapter, so a saved configuration has all sizes.
 */
public final class PromptConfig {
    private static final String ENCODER_HIDDEN_SIZE = "encoder_hidden_size";

    private final ConfigKeys keys;
    private final PeftType type;
    private final @Nullable Integer virtualTokens;

    PromptConfig(ConfigKeys keys, PeftType type) {
        this.keys = keys;
        this.type = type;
        this.virtualTokens = keys.count("num_virtual_tokens");
        // every key is read once, so that a wrong type shows at opening
        tokenDim();
        submodules();
        attentionHeads();
        layers();
        encoderHiddenSize();
        encoderLayers();
        encoderDropout();
        encoderReparameterization();
        prefixProjection();
        initWeights();
        promptTuningInit();
        promptTuningInitText();
        tokenizer();
    }

    private static OptionalInt optional(@Nullable Integer value) {
        return value == null ? OptionalInt.empty() : OptionalInt.of(value);
    }

    /**
     * Number of virtual tokens.
     *
     * @throws MalformedModelException when the configuration does not name it
     */
    public int virtualTokens() {
        if (virtualTokens == null) {
            throw keys.wrong("num_virtual_tokens", "a whole number of at least 1");
        }
        return virtualTokens;
    }

    /** Width of a virtual token. For prefix tuning, the width of the keys of one layer: of all key heads. */
    public OptionalInt tokenDim() {
        return optional(keys.count("token_dim"));
    }

    /** How many stacks of layers get virtual tokens of their own: 2 for encoder and decoder, otherwise 1. */
    public int submodules() {
        return keys.count("num_transformer_submodules", 1);
    }

    /** Heads of keys and values, for prefix tuning. */
    public OptionalInt attentionHeads() {
        return optional(keys.count("num_attention_heads"));
    }

    /** Layers with keys and values, for prefix tuning. */
    public OptionalInt layers() {
        return optional(keys.count("num_layers"));
    }

    /** Width of the small network of P-tuning and of prefix tuning with projection; {@link #tokenDim} if the configuration has none. */
    public OptionalInt encoderHiddenSize() {
        return optional(keys.count(ENCODER_HIDDEN_SIZE));
    }

    /** Layers of P-tuning's LSTM. */
    public int encoderLayers() {
        return keys.count("encoder_num_layers", 2);
    }

    /** Dropout in P-tuning's LSTM. */
    public double encoderDropout() {
        return keys.number("encoder_dropout", 0);
    }

    /** P-tuning's network: {@code MLP} or {@code LSTM}. */
    public String encoderReparameterization() {
        return keys.text("encoder_reparameterization_type").orElse("MLP");
    }

    /** Whether the virtual tokens of prefix tuning come out of a network with one hidden layer. The file holds its result. */
    public boolean prefixProjection() {
        return keys.flag("prefix_projection", false);
    }

    /** How a prefix begins: {@code zero}, or at random when empty. */
    public Optional<String> initWeights() {
        return keys.text("init_weights");
    }

    /** How prompt tuning begins: {@code RANDOM}, {@code SAMPLE_VOCAB} or {@code TEXT}. */
    public String promptTuningInit() {
        return keys.text("prompt_tuning_init").orElse("RANDOM");
    }

    /** The text whose tokens prompt tuning begins with. */
    public Optional<String> promptTuningInitText() {
        return keys.text("prompt_tuning_init_text");
    }

    /** The tokenizer of that text. */
    public Optional<String> tokenizer() {
        return keys.text("tokenizer_name_or_path");
    }

    /** Rows of the stored tensor {@code prompt_embeddings}. */
    public long rows() {
        return (long) virtualTokens() * submodules();
    }

    /** Columns of the stored tensor {@code prompt_embeddings}; empty when the configuration lacks a size. */
    public Optional<Long> columns() {
        if (tokenDim().isEmpty() || (type == PeftType.PREFIX_TUNING && layers().isEmpty())) {
            return Optional.empty();
        }
        long width = tokenDim().getAsInt();
        return Optional.of(type == PeftType.PREFIX_TUNING ? width * 2 * layers().getAsInt() : width);
    }
}
