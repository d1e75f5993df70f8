package dev.octet.trainer.config;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.peft.PeftType;
import dev.octet.trainer.adapter.AdapterSettings;
import dev.octet.trainer.adapter.MergeAwareness;
import dev.octet.trainer.yaml.Section;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Reads {@code adapter: {peft_type: LORA, r: 16, target_modules: all-linear}}: PEFT's names and defaults. */
final class AdapterConfig {
    /** Only biases are trained; a LoRA without targets in files. */
    private static final String BITFIT = "BITFIT";

    private static final Map<String, String> TYPES = types();
    private static final Map<String, String> BIASES = same("none", "all", "lora_only");
    private static final Map<String, String> ARCHITECTURES = same("houlsby", "pfeiffer");
    private static final Map<String, String> ACTIVATIONS = same("relu", "gelu", "swish", "tanh");
    private static final Map<String, String> BOTTLENECK_STARTS = same("bert", "zero");

    private AdapterConfig() {}

    private static Map<String, String> types() {
        Map<String, String> types = new LinkedHashMap<>();
        for (PeftType type : PeftType.values()) {
            types.put(type.name(), type.name());
        }
        types.put(BITFIT, BITFIT);
        return types;
    }

    private static Map<String, String> same(String... names) {
        Map<String, String> same = new LinkedHashMap<>();
        for (String name : names) {
            same.put(name, name);
        }
        return same;
    }

    /**
     * The adapter; empty where there is no such section.
     *
     * @param seed of the run
     */
    static Optional<AdapterSettings> read(Section file, Path folder, long seed) {
        return file.has("adapter")
                ? Optional.of(file.section("adapter").read(s -> of(s, folder, seed, file.where("adapter"))))
                : Optional.empty();
    }

    private static AdapterSettings of(Section s, Path folder, long seed, String where) {
        Optional<Path> from = s.path("from", folder);
        Optional<ContinuedAdapter> continued = from.map(f -> ContinuedAdapter.read(s, f));
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        String type = s.choice(
                "peft_type",
                TYPES,
                continued.map(ContinuedAdapter::type).orElse(PeftType.LORA).name());
        if (type.equals(BITFIT)) {
            json.put("peft_type", PeftType.LORA.name());
            json.put("bias", "all");
            json.putArray("target_modules");
        } else {
            json.put("peft_type", type);
            method(PeftType.valueOf(type), s, json);
        }
        if (s.flag("merge_aware", false)) {
            json.putObject(MergeAwareness.STAMP); // what the base is, who opens it knows
        }
        names(s, json, "modules_to_save");
        return new AdapterSettings(
                continued.isPresent() ? continued.get().agreeing(s, json) : PeftConfig.of(json, where),
                from,
                s.whole("dropout_seed", seed, Long.MIN_VALUE, Long.MAX_VALUE));
    }

    private static void method(PeftType type, Section s, ObjectNode json) {
        switch (type) {
            case LORA -> lora(s, json);
            case IA3 -> {
                targets(s, json);
                names(s, json, "feedforward_modules");
                json.put("fan_in_fan_out", s.flag("fan_in_fan_out", false));
                json.put("init_ia3_weights", s.flag("init_ia3_weights", true));
            }
            case LN_TUNING -> targets(s, json);
            case BOTTLENECK -> bottleneck(s, json);
            case PROMPT_TUNING, P_TUNING, PREFIX_TUNING -> PromptKeys.read(s, type, json);
        }
    }

    private static void lora(Section s, ObjectNode json) {
        json.put("r", s.whole("r", 8, 1, Integer.MAX_VALUE));
        json.put("lora_alpha", s.number("lora_alpha", 8, Double.MIN_VALUE, Double.MAX_VALUE));
        json.put("lora_dropout", s.number("lora_dropout", 0, 0, Math.nextDown(1.0)));
        targets(s, json);
        json.put("fan_in_fan_out", s.flag("fan_in_fan_out", false));
        json.put("bias", s.choice("bias", BIASES, "none"));
        json.put("use_rslora", s.flag("use_rslora", false));
        json.put("use_dora", s.flag("use_dora", false));
        json.put("lora_bias", s.flag("lora_bias", false));
        String start = s.text("init_lora_weights").orElse("true");
        switch (start) {
            case "true", "false" -> json.put("init_lora_weights", Boolean.parseBoolean(start));
            default -> json.put("init_lora_weights", start);
        }
        if (s.has("rank_pattern")) {
            Section ranks = s.section("rank_pattern");
            ObjectNode pattern = json.putObject("rank_pattern");
            ranks.keys().forEach(key -> pattern.put(key, ranks.requiredWhole(key, 1, Integer.MAX_VALUE)));
        }
        if (s.has("alpha_pattern")) {
            Section alphas = s.section("alpha_pattern");
            ObjectNode pattern = json.putObject("alpha_pattern");
            alphas.keys().forEach(key -> pattern.put(key, alphas.number(key, 8, Double.MIN_VALUE, Double.MAX_VALUE)));
        }
        names(s, json, "target_parameters");
    }

    private static void bottleneck(Section s, ObjectNode json) {
        boolean houlsby = s.choice("config", ARCHITECTURES, "pfeiffer").equals("houlsby");
        targets(s, json);
        json.put("mh_adapter", s.flag("mh_adapter", houlsby));
        json.put("output_adapter", s.flag("output_adapter", true));
        json.put("reduction_factor", s.number("reduction_factor", 16, Double.MIN_NORMAL, Integer.MAX_VALUE));
        json.put("non_linearity", s.choice("non_linearity", ACTIVATIONS, houlsby ? "swish" : "relu"));
        json.put("scaling", s.number("scaling", 1, -Double.MAX_VALUE, Double.MAX_VALUE));
        json.put("init_weights", s.choice("init_weights", BOTTLENECK_STARTS, "bert"));
    }

    /** Which modules are changed. */
    private static void targets(Section s, ObjectNode json) {
        names(s, json, "target_modules");
        names(s, json, "exclude_modules");
        names(s, json, "layers_pattern");
        if (s.has("layers_to_transform")) {
            ArrayNode layers = json.putArray("layers_to_transform");
            s.texts("layers_to_transform").forEach(layer -> layers.add(number(s, layer)));
        }
    }

    private static int number(Section s, String layer) {
        if (!layer.matches("\\d{1,6}")) {
            throw s.error(
                    "layers_to_transform",
                    "'" + layer + "' is not the number of a layer",
                    "write numbers from 0: [0, 1]");
        }
        return Integer.parseInt(layer);
    }

    /** A list stays a list; a single text is a regular expression or {@code all-linear}, as in PEFT. */
    private static void names(Section s, ObjectNode json, String key) {
        if (!s.has(key)) {
            return;
        }
        List<String> texts = s.texts(key);
        if (s.isList(key)) {
            ArrayNode list = json.putArray(key);
            texts.forEach(list::add);
        } else {
            json.put(key, texts.getFirst());
        }
    }
}
