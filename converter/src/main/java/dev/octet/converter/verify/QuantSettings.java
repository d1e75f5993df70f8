package dev.octet.converter.verify;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.quant.layout.ModulePattern;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * The quantisation settings in a checkpoint's configuration, read as leniently as its consumers read them.
 *
 * @param method which family of loaders is asked for
 * @param json the object they come from: {@code quantization_config} of {@code config.json}, or {@code quantization} of
 *     {@code hf_quant_config.json}; empty when there is neither
 * @param groups schemes; for methods without groups, one for all layers
 * @param exclusions patterns of modules that are not quantised
 * @param algorithm ModelOpt's {@code quant_algo}; empty otherwise
 */
record QuantSettings(Method method, JsonNode json, List<Group> groups, List<String> exclusions, String algorithm) {
    /** Families of loaders. */
    enum Method {
        /** The configuration says nothing about quantisation. */
        NONE,
        COMPRESSED_TENSORS,
        /** {@code quant_method} fp8: DeepSeek, transformers, vLLM. */
        FP8,
        MODELOPT,
        /** Another one. */
        OTHER
    }

    /** How an operand's scales come to be. */
    enum Dynamic {
        STATIC,
        DYNAMIC,
        LOCAL
    }

    /**
     * How one operand is quantised.
     *
     * @param groupSize inputs that share a scale, 0 when not by group
     * @param rows of a block, 0 when not by block
     * @param columns of a block, 0 when not by block
     */
    record Operand(
            int bits,
            boolean isFloat,
            String strategy,
            long groupSize,
            long rows,
            long columns,
            Dynamic dynamic,
            boolean symmetric) {
        boolean isFloat8() {
            return isFloat && bits == 8;
        }

        boolean isFloat4() {
            return isFloat && bits == 4;
        }
    }

    /**
     * One scheme.
     *
     * @param targets patterns of modules; {@code Linear} for all
     */
    record Group(
            String name,
            List<ModulePattern> targets,
            @Nullable Operand weights,
            @Nullable Operand inputs) {
        private static final List<ModulePattern> ALL = List.of(ModulePattern.of("Linear"));

        /** Whether a target is a class that attends. */
        boolean isOfAttention() {
            return targets.stream().anyMatch(t -> t instanceof ModulePattern.Name n && n.isAttention());
        }

        /** A class name is taken for that of Linear, unless it is one that attends. */
        boolean isFor(String module) {
            for (ModulePattern target : targets) {
                boolean linear = target instanceof ModulePattern.Name n && n.isClass() && !n.isAttention();
                if (linear || target.matches(module)) {
                    return true;
                }
            }
            return false;
        }
    }

    QuantSettings {
        groups = List.copyOf(groups);
        exclusions = List.copyOf(exclusions);
    }

    /** Whether weights share a scale in blocks of rows and columns. */
    boolean hasBlocks() {
        return groups.stream().anyMatch(g -> g.weights() != null && g.weights().rows() > 0);
    }

    /** Groups of classes that attend. */
    List<Group> attentionGroups() {
        return groups.stream().filter(Group::isOfAttention).toList();
    }

    /** Whether any group is meant for a module. */
    boolean targets(String module) {
        return group(module) != null;
    }

    /** The first group that is meant for a module, or null. */
    @Nullable
    Group group(String module) {
        for (Group group : groups) {
            if (group.isFor(module)) {
                return group;
            }
        }
        return null;
    }

    /** Reads both files; {@code config.json} wins for the method, since that is what loaders dispatch by. */
    static QuantSettings of(@Nullable ObjectNode config, @Nullable ObjectNode quantConfig) {
        JsonNode inConfig = inConfig(config);
        if (inConfig.isObject()) {
            return of(inConfig);
        }
        JsonNode modelOpt = quantConfig == null ? MissingNode.getInstance() : quantConfig.path("quantization");
        return modelOpt.isObject()
                ? modelOpt(modelOpt)
                : new QuantSettings(Method.NONE, MissingNode.getInstance(), List.of(), List.of(), "");
    }

    /** The object in {@code config.json}; multimodal models keep it in their text part. */
    static JsonNode inConfig(@Nullable ObjectNode config) {
        if (config == null) {
            return MissingNode.getInstance();
        }
        JsonNode top = config.path("quantization_config");
        if (top.isObject()) {
            return top;
        }
        JsonNode old = config.path("compression_config");
        return old.isObject() ? old : config.path("text_config").path("quantization_config");
    }

    private static QuantSettings of(JsonNode json) {
        String method = json.path("quant_method").asText("").toLowerCase(Locale.ROOT);
        return switch (method) {
            case "compressed-tensors" ->
                new QuantSettings(Method.COMPRESSED_TENSORS, json, groups(json), texts(json.path("ignore")), "");
            case "fp8" ->
                new QuantSettings(
                        Method.FP8,
                        json,
                        List.of(fp8(json)),
                        texts(
                                json.has("modules_to_not_convert")
                                        ? json.path("modules_to_not_convert")
                                        : json.path("ignored_layers")),
                        "");
            case "modelopt", "modelopt_fp4", "modelopt_fp8" -> modelOpt(json);
            default ->
                json.has("quant_algo") || json.path("quantization").has("quant_algo")
                        ? modelOpt(json)
                        : new QuantSettings(Method.OTHER, json, List.of(), List.of(), "");
        };
    }

    private static List<Group> groups(JsonNode json) {
        List<Group> groups = new ArrayList<>();
        for (var field : json.path("config_groups").properties()) {
            JsonNode g = field.getValue();
            groups.add(new Group(
                    field.getKey(),
                    texts(g.path("targets")).stream().map(ModulePattern::of).toList(),
                    operand(g.path("weights")),
                    operand(g.path("input_activations"))));
        }
        return groups;
    }

    private static @Nullable Operand operand(JsonNode json) {
        if (!json.isObject()) {
            return null;
        }
        long groupSize = json.path("group_size").asLong(0);
        long[] block = block(json.path("block_structure"));
        String strategy = json.path("strategy").asText("");
        if (strategy.isEmpty()) {
            strategy = groupSize > 0 ? "group" : groupSize < 0 ? "channel" : "tensor";
        }
        return new Operand(
                json.path("num_bits").asInt(8),
                json.path("type").asText("int").equals("float"),
                strategy,
                Math.max(0, groupSize),
                block[0],
                block[1],
                json.path("dynamic").isTextual()
                        ? Dynamic.LOCAL
                        : json.path("dynamic").asBoolean(false) ? Dynamic.DYNAMIC : Dynamic.STATIC,
                json.path("symmetric").asBoolean(true));
    }

    /** Rows and columns; zeros when absent. */
    private static long[] block(JsonNode json) {
        if (json.isArray() && json.size() == 2) {
            return new long[] {json.get(0).asLong(), json.get(1).asLong()};
        }
        String[] sides = json.asText("").split("x", -1);
        return sides.length == 2 && sides[0].matches("\\d{1,9}") && sides[1].matches("\\d{1,9}")
                ? new long[] {Long.parseLong(sides[0]), Long.parseLong(sides[1])}
                : new long[2];
    }

    private static Group fp8(JsonNode json) {
        long[] block = block(json.path("weight_block_size"));
        boolean isStatic = json.path("activation_scheme").asText("dynamic").equals("static");
        boolean blocks = block[0] > 0;
        Operand weights = float8(blocks ? "block" : "tensor", 0, block, Dynamic.STATIC);
        Operand inputs =
                float8(blocks ? "group" : "tensor", block[1], new long[2], isStatic ? Dynamic.STATIC : Dynamic.DYNAMIC);
        return new Group("fp8", Group.ALL, weights, inputs);
    }

    private static Operand float8(String strategy, long groupSize, long[] block, Dynamic dynamic) {
        return new Operand(8, true, strategy, groupSize, block[0], block[1], dynamic, true);
    }

    private static QuantSettings modelOpt(JsonNode given) {
        JsonNode json = given.path("quantization").isObject() ? given.path("quantization") : given;
        String algorithm = json.path("quant_algo").asText("").toUpperCase(Locale.ROOT);
        JsonNode exclusions = json.has("exclude_modules") ? json.path("exclude_modules") : json.path("ignore");
        return new QuantSettings(Method.MODELOPT, json, modelOptGroups(algorithm), texts(exclusions), algorithm);
    }

    private static List<Group> modelOptGroups(String algorithm) {
        long[] none = new long[2];
        Operand weights;
        Operand inputs;
        switch (algorithm) {
            case "FP8" -> {
                weights = float8("tensor", 0, none, Dynamic.STATIC);
                inputs = weights;
            }
            case "FP8_PER_CHANNEL_PER_TOKEN" -> {
                weights = float8("channel", 0, none, Dynamic.STATIC);
                inputs = float8("token", 0, none, Dynamic.DYNAMIC);
            }
            case "FP8_PB_WO" -> {
                weights = float8("block", 0, new long[] {128, 128}, Dynamic.STATIC);
                inputs = null;
            }
            case "MXFP8" -> {
                weights = float8("group", 32, none, Dynamic.STATIC);
                inputs = float8("group", 32, none, Dynamic.DYNAMIC);
            }
            case "NVFP4" -> {
                weights = new Operand(4, true, "tensor_group", 16, 0, 0, Dynamic.STATIC, true);
                inputs = new Operand(4, true, "tensor_group", 16, 0, 0, Dynamic.STATIC, true);
            }
            default -> {
                return List.of();
            }
        }
        return List.of(new Group(algorithm, Group.ALL, weights, inputs));
    }

    private static List<String> texts(JsonNode array) {
        List<String> texts = new ArrayList<>();
        array.forEach(t -> {
            if (t.isTextual()) {
                texts.add(t.asText());
            }
        });
        return texts;
    }
}
