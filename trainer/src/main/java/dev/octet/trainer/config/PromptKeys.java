package dev.octet.trainer.config;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.peft.PeftType;
import dev.octet.trainer.yaml.Section;
import java.util.LinkedHashMap;
import java.util.Map;

/** Reads the keys of prompt tuning, P-tuning and prefix tuning, with PEFT's names and defaults; sizes follow from the model. */
final class PromptKeys {
    private static final String TEXT = "prompt_tuning_init_text";

    private PromptKeys() {}

    private static Map<String, String> names(String... names) {
        Map<String, String> map = new LinkedHashMap<>();
        for (String name : names) {
            map.put(name, name);
        }
        return map;
    }

    static void read(Section s, PeftType type, ObjectNode json) {
        if (s.has("num_virtual_tokens") || !s.has("from")) {
            json.put("num_virtual_tokens", s.requiredWhole("num_virtual_tokens", 1, Integer.MAX_VALUE));
        }
        switch (type) {
            case PROMPT_TUNING -> {
                json.put(
                        "prompt_tuning_init",
                        s.choice("prompt_tuning_init", names("RANDOM", "SAMPLE_VOCAB", "TEXT"), "RANDOM"));
                s.text(TEXT).ifPresent(text -> json.put(TEXT, text));
                boolean fromText = json.path("prompt_tuning_init").asText().equals("TEXT");
                if (fromText != s.has(TEXT) && !s.has("from")) {
                    throw s.error(
                            fromText ? "prompt_tuning_init" : TEXT,
                            fromText ? "there is no text to begin with" : "the text is not used",
                            fromText ? "add " + TEXT + ": ..." : "add prompt_tuning_init: TEXT");
                }
                s.text("tokenizer_name_or_path").ifPresent(t -> json.put("tokenizer_name_or_path", t));
            }
            case P_TUNING -> {
                json.put(
                        "encoder_reparameterization_type",
                        s.choice("encoder_reparameterization_type", names("MLP", "LSTM"), "MLP"));
                width(s, json);
                json.put("encoder_num_layers", s.whole("encoder_num_layers", 2, 1, 64));
                double dropout = s.number("encoder_dropout", 0, 0, Math.nextDown(1.0));
                if (dropout > 0) {
                    throw s.error(
                            "encoder_dropout",
                            "the network of P-tuning is trained without dropout",
                            "leave the key out");
                }
                json.put("encoder_dropout", dropout);
            }
            case PREFIX_TUNING -> {
                json.put("prefix_projection", s.flag("prefix_projection", false));
                width(s, json);
            }
            case LORA, IA3, LN_TUNING, BOTTLENECK ->
                throw new IllegalArgumentException(type + " has no virtual tokens");
        }
    }

    private static void width(Section s, ObjectNode json) {
        if (s.has("encoder_hidden_size")) {
            json.put("encoder_hidden_size", s.whole("encoder_hidden_size", 1, 1, Integer.MAX_VALUE));
        }
    }
}
