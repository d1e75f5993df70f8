package dev.octet.formats.peft;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.formats.error.MalformedModelException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The keys of a LoRA adapter, with PEFT's defaults. The product of a module is {@code scaling * B(A(x))} (Hu et al. 2021,
 * arXiv:2106.09685 §4.1).
 */
public final class LoraConfig {
    /** Which biases of the base an adapter trains: {@code bias}. */
    public enum Bias {
        /** None. */
        NONE,
        /** All of the model. */
        ALL,
        /** Those of the target modules. */
        LORA_ONLY
    }

    private static final double DEFAULT_ALPHA = 8;
    private static final int DEFAULT_RANK = 8;

    /** Keys that change what an adapter computes in a way that Octet does not know, and the values that leave them off. */
    private static final Map<String, String> FOREIGN = foreign();

    private final ConfigKeys keys;
    private final int r;
    private final double loraAlpha;
    private final double loraDropout;
    private final TargetModules targetModules;
    private final Map<String, Integer> rankPattern;
    private final Map<String, Double> alphaPattern;
    private final Map<String, PythonRegex> patterns = new LinkedHashMap<>();
    private final boolean useRslora;
    private final boolean useDora;
    private final boolean loraBias;
    private final boolean fanInFanOut;
    private final Bias bias;
    private final String initLoraWeights;
    private final List<String> modulesToSave;
    private final List<String> targetParameters;

    LoraConfig(ConfigKeys keys) {
        this.keys = keys;
        this.r = keys.count("r", DEFAULT_RANK);
        this.loraAlpha = keys.number("lora_alpha", DEFAULT_ALPHA);
        this.loraDropout = keys.number("lora_dropout", 0);
        if (loraDropout < 0 || loraDropout >= 1) {
            throw keys.wrong("lora_dropout", "a number from 0 to below 1");
        }
        this.targetModules = new TargetModules(keys);
        this.rankPattern = keys.counts("rank_pattern");
        this.alphaPattern = keys.numbers("alpha_pattern");
        rankPattern.keySet().forEach(key -> patterns.put(key, PythonRegex.ofEnd(key, keys.where("rank_pattern"))));
        alphaPattern.keySet().forEach(key -> patterns.put(key, PythonRegex.ofEnd(key, keys.where("alpha_pattern"))));
        this.useRslora = keys.flag("use_rslora", false);
        this.useDora = keys.flag("use_dora", false);
        this.loraBias = keys.flag("lora_bias", false);
        this.fanInFanOut = keys.flag("fan_in_fan_out", false);
        this.bias = switch (keys.oneOf("bias", "none", List.of("none", "all", "lora_only"))) {
            case "all" -> Bias.ALL;
            case "lora_only" -> Bias.LORA_ONLY;
            default -> Bias.NONE;
        };
        this.initLoraWeights = init(keys);
        this.modulesToSave = keys.namesOrName("modules_to_save").orElse(List.of());
        this.targetParameters = keys.names("target_parameters").orElse(List.of());
        if (loraBias && useDora) {
            throw new MalformedModelException(
                    "lora_bias and use_dora are both true, which PEFT does not combine",
                    keys.where("lora_bias"),
                    "set one of them to false");
        }
    }

    private static String init(ConfigKeys keys) {
        JsonNode value = keys.json().get("init_lora_weights");
        if (value == null || value.isNull()) {
            return "true";
        }
        if (!value.isBoolean() && !value.isTextual()) {
            throw keys.wrong("init_lora_weights", "true, false or the name of a method");
        }
        return value.asText();
    }

    private static Map<String, String> foreign() {
        Map<String, String> off = new LinkedHashMap<>();
        off.put("alora_invocation_tokens", "null");
        off.put("arrow_config", "null");
        off.put("kasa_config", "null");
        off.put("layer_replication", "null");
        off.put("megatron_config", "null");
        off.put("monteclora_config", "null");
        off.put("use_bdlora", "null");
        off.put("use_qalora", "false");
        return off;
    }

    /** Rank of the modules that {@code rank_pattern} does not name. */
    public int r() {
        return r;
    }

    /** Alpha of the modules that {@code alpha_pattern} does not name. */
    public double loraAlpha() {
        return loraAlpha;
    }

    /** Probability that an input element of A is dropped in training. */
    public double loraDropout() {
        return loraDropout;
    }

    /** Which modules are changed. */
    public TargetModules targetModules() {
        return targetModules;
    }

    /** {@code rank_pattern} as written. */
    public Map<String, Integer> rankPattern() {
        return rankPattern;
    }

    /** {@code alpha_pattern} as written. */
    public Map<String, Double> alphaPattern() {
        return alphaPattern;
    }

    /** Whether the scaling is alpha / sqrt(r) (Kalajdzievski 2023, arXiv:2312.03732). */
    public boolean useRslora() {
        return useRslora;
    }

    /** Whether the rows of the changed weights have trained norms (DoRA: Liu et al. 2024, arXiv:2402.09353). */
    public boolean useDora() {
        return useDora;
    }

    /** Whether B has a bias. */
    public boolean loraBias() {
        return loraBias;
    }

    /** Whether the weights of the target modules are [in, out], as those of GPT-2's Conv1D. */
    public boolean fanInFanOut() {
        return fanInFanOut;
    }

    /** Which biases of the base are trained. */
    public Bias bias() {
        return bias;
    }

    /** How A and B begin: {@code true}, {@code false} or a method's name, for example {@code gaussian} or {@code pissa_niter_16}. */
    public String initLoraWeights() {
        return initLoraWeights;
    }

    /** Names of modules that are trained whole. PEFT matches them to the ends of paths, even within a name. */
    public List<String> modulesToSave() {
        return modulesToSave;
    }

    /** Paths, or ends of paths, of parameters that get a product of their own, such as the stacked weights of experts. */
    public List<String> targetParameters() {
        return targetParameters;
    }

    /** {@code layers_to_transform}; empty for all layers. */
    public List<Integer> layersToTransform() {
        return keys.indexes("layers_to_transform").orElse(List.of());
    }

    /** {@code layers_pattern}; empty for PEFT's own. */
    public List<String> layersPattern() {
        return keys.namesOrName("layers_pattern").orElse(List.of());
    }

    /** {@code exclude_modules}: a list, or one regular expression; empty for none. */
    public List<String> excludeModules() {
        return keys.namesOrName("exclude_modules").orElse(List.of());
    }

    /**
     * Rank of a module.
     *
     * @param module path of the module, or of the parameter
     */
    public int rank(String module) {
        Integer rank = firstMatch(rankPattern, module);
        return rank == null ? r : rank;
    }

    /** Alpha of a module. */
    public double alpha(String module) {
        Double alpha = firstMatch(alphaPattern, module);
        return alpha == null ? loraAlpha : alpha;
    }

    /** Factor of a module's product: alpha / r, or alpha / sqrt(r) with {@link #useRslora}. */
    public double scaling(String module) {
        int rank = rank(module);
        return alpha(module) / (useRslora ? Math.sqrt(rank) : rank);
    }

    /** The value of the first key, in the order of the file, that matches the end of the path. */
    private <T> @Nullable T firstMatch(Map<String, T> values, String module) {
        for (Map.Entry<String, T> each : values.entrySet()) {
            PythonRegex pattern = patterns.get(each.getKey());
            if (pattern != null && pattern.matches(module)) {
                return each.getValue();
            }
        }
        return null;
    }

    /** The keys of {@code rank_pattern} and {@code alpha_pattern} that match none of {@code modules}; PEFT ignores them with a warning. */
    public List<String> unmatchedPatterns(List<String> modules) {
        return patterns.entrySet().stream()
                .filter(e -> modules.stream().noneMatch(e.getValue()::matches))
                .map(Map.Entry::getKey)
                .toList();
    }

    /** Keys with values that make PEFT compute something that Octet does not know, for example {@code use_qalora}. */
    public List<String> foreignKeys() {
        return FOREIGN.entrySet().stream()
                .filter(e -> {
                    JsonNode value = keys.json().get(e.getKey());
                    return value != null && !value.isNull() && !value.asText().equals(e.getValue());
                })
                .map(Map.Entry::getKey)
                .toList();
    }

    /** Whether the adapter holds new vectors of single tokens: {@code trainable_token_indices}. */
    public boolean hasTrainableTokens() {
        return Optional.ofNullable(keys.json().get("trainable_token_indices"))
                .map(value -> !value.isNull() && value.size() > 0)
                .orElse(false);
    }
}
