package dev.octet.trainer.config;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.peft.PeftType;
import dev.octet.trainer.adapter.AdapterSettings;
import dev.octet.trainer.yaml.Section;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Reads {@code adapter: {peft_type: LORA, r: 16, target_modules: all-linear}}: PEFT's names and defaults. */
final class AdapterConfig {
    private static final Map<String, PeftType> TYPES = types();

    private AdapterConfig() {}

    private static Map<String, PeftType> types() {
        Map<String, PeftType> types = new LinkedHashMap<>();
        for (PeftType type : PeftType.values()) {
            types.put(type.name(), type);
        }
        return types;
    }

    /** The adapter; empty where there is no such section. */
    static Optional<AdapterSettings> read(Section file, Path folder) {
        return file.has("adapter") ? Optional.of(file.section("adapter").read(s -> of(s, folder))) : Optional.empty();
    }

    private static AdapterSettings of(Section s, Path folder) {
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        PeftType type = s.choice("peft_type", TYPES, PeftType.LORA);
        json.put("peft_type", type.name());
        if (type == PeftType.LORA) {
            lora(s, json);
        }
        return new AdapterSettings(PeftConfig.of(json), s.path("from", folder));
    }

    private static void lora(Section s, ObjectNode json) {
        json.put("r", s.whole("r", 8, 1, Integer.MAX_VALUE));
        json.put("lora_alpha", s.number("lora_alpha", 8, Double.MIN_VALUE, Double.MAX_VALUE));
        targets(s, json, "target_modules");
        targets(s, json, "exclude_modules");
        json.put("use_rslora", s.flag("use_rslora", false));
    }

    /** A list stays a list; a single text is a regular expression or {@code all-linear}, as in PEFT. */
    private static void targets(Section s, ObjectNode json, String key) {
        List<String> texts = s.texts(key);
        if (!s.has(key)) {
            return;
        }
        if (s.isList(key)) {
            ArrayNode list = json.putArray(key);
            texts.forEach(list::add);
        } else {
            json.put(key, texts.getFirst());
        }
    }
}
