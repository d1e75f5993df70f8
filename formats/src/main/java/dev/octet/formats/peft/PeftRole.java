package dev.octet.formats.peft;

/** What a tensor of an adapter is to its module; the suffix of its key behind the module's path. */
public enum PeftRole {
    /** LoRA's A, [r, in]; for stacked experts [r * experts, in]. */
    LORA_A(".lora_A.weight"),
    /** LoRA's B, [out, r]; for stacked experts [out, r * experts]. */
    LORA_B(".lora_B.weight"),
    /** The bias of B, [out], with {@code lora_bias}. */
    LORA_B_BIAS(".lora_B.bias"),
    /** LoRA's A of a table of embeddings, [r, rows of the table]. */
    LORA_EMBEDDING_A(".lora_embedding_A"),
    /** LoRA's B of a table of embeddings, [columns of the table, r]. */
    LORA_EMBEDDING_B(".lora_embedding_B"),
    /** DoRA's norms of the rows of the changed weight, [out]. */
    LORA_MAGNITUDE(".lora_magnitude_vector"),
    /** IA3's factors: [1, in] of a feedforward module, otherwise [out, 1]. */
    IA3(".ia3_l"),
    /** The weight of a norm, in the norm's shape. */
    NORM_WEIGHT(".ln_tuning_layers.weight"),
    /** The bias of a norm. */
    NORM_BIAS(".ln_tuning_layers.bias"),
    /** New vectors of single tokens, [tokens, columns of the table]: {@code trainable_token_indices}. */
    TOKENS(".token_adapter.trainable_tokens_delta"),
    /** The weight that narrows, of a bottleneck adapter: [bottleneck, width]. */
    DOWN_WEIGHT(".adapter_down.weight"),
    /** The bias of the Linear that narrows: [bottleneck]. */
    DOWN_BIAS(".adapter_down.bias"),
    /** The weight that widens again: [width, bottleneck]. */
    UP_WEIGHT(".adapter_up.weight"),
    /** The bias of the Linear that widens: [width]. */
    UP_BIAS(".adapter_up.bias"),
    /** The base's own weight of a target module; PEFT saves it for {@code embed_tokens} and {@code lm_head}. */
    BASE_WEIGHT(".base_layer.weight"),
    /** The trained bias of a target module, with {@code bias} all or lora_only. */
    BASE_BIAS(".base_layer.bias"),
    /** The virtual tokens, [tokens, width]; the whole key, and no module. */
    PROMPT("prompt_embeddings"),
    /** A parameter of the base that was trained whole, under its own path: {@code modules_to_save}, biases of modules that are no targets. */
    SAVED("");

    private final String suffix;

    PeftRole(String suffix) {
        this.suffix = suffix;
    }

    /** What follows on the path of the module in the key, with its dot; empty for {@link #SAVED}. */
    public String suffix() {
        return suffix;
    }

    /** Whether adapters of this method have such tensors. */
    public boolean belongsTo(PeftType type) {
        return switch (this) {
            case LORA_A, LORA_B, LORA_B_BIAS, LORA_EMBEDDING_A, LORA_EMBEDDING_B, LORA_MAGNITUDE, TOKENS, BASE_BIAS ->
                type == PeftType.LORA;
            case IA3 -> type == PeftType.IA3;
            case NORM_WEIGHT, NORM_BIAS -> type == PeftType.LN_TUNING;
            case DOWN_WEIGHT, DOWN_BIAS, UP_WEIGHT, UP_BIAS -> type == PeftType.BOTTLENECK;
            case PROMPT -> type.isPrompt();
            case BASE_WEIGHT, SAVED -> true;
        };
    }
}
