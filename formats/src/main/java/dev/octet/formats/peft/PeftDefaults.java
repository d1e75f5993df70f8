package dev.octet.formats.peft;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;

/** The keys that PEFT 0.21 writes for each method and their defaults: the fields of the classes of configurations, without peft_version. */
final class PeftDefaults {
    private static final String LORA_KEYS = """
        alora_invocation_tokens alpha_pattern={} arrow_config bias=none corda_config ensure_weight_tying=false eva_config \
        exclude_modules fan_in_fan_out=false init_lora_weights=true kasa_config layer_replication layers_pattern \
        layers_to_transform loftq_config={} lora_alpha=8 lora_bias=false lora_dropout=0.0 lora_ga_config megatron_config \
        megatron_core=megatron.core modules_to_save monteclora_config qalora_group_size=16 r=8 rank_pattern={} target_modules \
        target_parameters trainable_token_indices use_bdlora use_dora=false use_qalora=false use_rslora=false velora_config\
        """;

    private static final String COMMON_KEYS =
            "auto_mapping base_model_name_or_path inference_mode=true revision task_type";

    private static final String PROMPT_KEYS =
            "modules_to_save num_attention_heads num_layers num_transformer_submodules"
                    + " num_virtual_tokens token_dim";

    private PeftDefaults() {}

    /** A new object of all keys with their defaults. */
    static ObjectNode of(PeftType type) {
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        json.put("peft_type", type.name());
        for (String keys : List.of(COMMON_KEYS, keys(type))) {
            for (String key : keys.split(" ", -1)) {
                add(json, key);
            }
        }
        return json;
    }

    private static String keys(PeftType type) {
        return switch (type) {
            case LORA -> LORA_KEYS;
            case IA3 ->
                "exclude_modules fan_in_fan_out=false feedforward_modules init_ia3_weights=true modules_to_save"
                        + " target_modules";
            case LN_TUNING -> "exclude_modules modules_to_save target_modules";
            case PROMPT_TUNING ->
                PROMPT_KEYS + " prompt_tuning_init=RANDOM prompt_tuning_init_text"
                        + " tokenizer_kwargs tokenizer_name_or_path";
            case P_TUNING ->
                PROMPT_KEYS + " encoder_dropout=0.0 encoder_hidden_size encoder_num_layers=2"
                        + " encoder_reparameterization_type=MLP";
            case PREFIX_TUNING -> PROMPT_KEYS + " encoder_hidden_size init_weights prefix_projection=false";
            case BOTTLENECK -> "target_modules";
        };
    }

    /** {@code key} for null, {@code key=value} otherwise. */
    private static void add(ObjectNode json, String key) {
        int equals = key.indexOf('=');
        if (equals < 0) {
            json.putNull(key);
            return;
        }
        String name = key.substring(0, equals);
        String value = key.substring(equals + 1);
        switch (value) {
            case "true", "false" -> json.put(name, Boolean.parseBoolean(value));
            case "{}" -> json.putObject(name);
            case "0.0" -> json.put(name, 0.0);
            default -> {
                if (value.chars().allMatch(Character::isDigit)) {
                    json.put(name, Integer.parseInt(value));
                } else {
                    json.put(name, value);
                }
            }
        }
    }
}
