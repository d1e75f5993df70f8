package dev.octet.quant.layout;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The {@code quantization_config} of compressed-tensors, as far as it says how weights lie in the file. Read leniently: what cannot be
 * understood is a note, never a failure.
 *
 * <p>Source: compressed-tensors {@code quantization/{quant_config,quant_scheme,quant_args}.py} at ac8e2ba.
 *
 * @param format {@code float-quantized}, ...; empty when absent
 * @param status {@code compressed} in a file that consumers take for quantised; empty when absent
 * @param groups in the order of the file
 * @param ignore modules that no group covers
 * @param notes what could not be understood
 */
public record CompressedTensorsConfig(
        String format, String status, List<Group> groups, List<ModulePattern> ignore, List<String> notes) {
    /** What presets say of weights; a group may be a preset's name and its targets alone. */
    private static final Map<String, Arguments> PRESETS = Map.ofEntries(
            Map.entry("FP8", Arguments.weights(8, true, "tensor", 0, 0)),
            Map.entry("FP8_DYNAMIC", Arguments.weights(8, true, "channel", 0, 0)),
            Map.entry("FP8_BLOCK", Arguments.weights(8, true, "block", 0, 128)),
            Map.entry("MXFP8", Arguments.weights(8, true, "group", 32, 0)),
            Map.entry("MXFP8A16", Arguments.weights(8, true, "group", 32, 0)),
            Map.entry("NVFP4", Arguments.weights(4, true, "tensor_group", 16, 0)),
            Map.entry("NVFP4A16", Arguments.weights(4, true, "tensor_group", 16, 0)),
            Map.entry("MXFP4", Arguments.weights(4, true, "group", 32, 0)),
            Map.entry("MXFP4A16", Arguments.weights(4, true, "group", 32, 0)),
            Map.entry("W8A8", Arguments.weights(8, false, "channel", 0, 0)),
            Map.entry("INT8", Arguments.weights(8, false, "channel", 0, 0)));

    public CompressedTensorsConfig {
        groups = List.copyOf(groups);
        ignore = List.copyOf(ignore);
        notes = List.copyOf(notes);
    }

    /**
     * One of {@code config_groups}.
     *
     * @param name {@code group_0}
     * @param targets modules it covers
     * @param weights null when it quantises no weights
     * @param inputs null when activations stay as they are
     * @param format its own format; empty when absent
     */
    public record Group(
            String name,
            List<ModulePattern> targets,
            @Nullable Arguments weights,
            @Nullable Arguments inputs,
            String format) {
        public Group {
            targets = List.copyOf(targets);
        }

        /** Whether a target is this very path, or an expression that matches it. */
        boolean names(String module) {
            return targets.stream().anyMatch(t -> t.matches(module));
        }

        /** Whether a target is a class, which a path may belong to. */
        boolean namesClass() {
            return targets.stream().anyMatch(t -> t instanceof ModulePattern.Name n && n.isClass());
        }
    }

    /**
     * How one operand is quantised.
     *
     * @param bits bits of a code
     * @param isFloat {@code type: float}
     * @param strategy {@code tensor}, {@code channel}, {@code group}, {@code block}, {@code tensor_group}, {@code token},
     *     {@code attn_head}; that which the group size implies when absent
     * @param groupSize 0 when absent
     * @param blockRows rows of a block, 0 when absent
     * @param blockCols columns of a block, 0 when absent
     * @param symmetric whether there is no zero point
     * @param dynamic whether scales are found at run time ({@code local} counts: only the second level is in the file)
     */
    public record Arguments(
            int bits,
            boolean isFloat,
            String strategy,
            int groupSize,
            int blockRows,
            int blockCols,
            boolean symmetric,
            boolean dynamic) {
        private static Arguments weights(int bits, boolean isFloat, String strategy, int groupSize, int block) {
            return new Arguments(bits, isFloat, strategy, groupSize, block, block, true, false);
        }

        /** Which elements of a weight share a scale; empty for strategies that weights do not have. */
        Optional<Granularity> granularity() {
            return switch (strategy) {
                case "tensor" -> Optional.of(new Granularity.PerTensor());
                case "channel" -> Optional.of(new Granularity.PerChannel(-2));
                case "group", "tensor_group" ->
                    groupSize > 0 ? Optional.of(new Granularity.PerGroup(-1, groupSize)) : Optional.empty();
                case "block" ->
                    blockRows > 0 && blockCols > 0
                            ? Optional.of(new Granularity.PerBlock(blockRows, blockCols))
                            : Optional.empty();
                default -> Optional.empty();
            };
        }

        /** What the codes are; empty for widths that Octet does not read. */
        Optional<QuantType> codes() {
            if (isFloat) {
                return bits == 8
                        ? Optional.of(QuantType.E4M3FN)
                        : bits == 4 ? Optional.of(QuantType.E2M1) : Optional.empty();
            }
            return QuantType.integers(bits, !symmetric);
        }
    }

    /** The configuration in {@code config.json}; empty when that is of another method, or of none. */
    public static Optional<CompressedTensorsConfig> in(ObjectNode config) {
        return Configs.quantization(config)
                .filter(q -> Configs.method(q).equals(CompressedTensorsLayout.NAME))
                .map(CompressedTensorsConfig::of);
    }

    /** The configuration in {@code quantization}, the object under {@code quantization_config}. */
    public static CompressedTensorsConfig of(ObjectNode quantization) {
        List<String> notes = new ArrayList<>();
        List<Group> groups = new ArrayList<>();
        JsonNode groupNodes = quantization.path("config_groups");
        if (!groupNodes.isObject()) {
            notes.add("quantization_config has no config_groups");
        }
        for (Map.Entry<String, JsonNode> entry : groupNodes.properties()) {
            groups.add(group(entry.getKey(), entry.getValue(), notes));
        }
        return new CompressedTensorsConfig(
                quantization.path("format").asText(""),
                quantization.path("quantization_status").asText(""),
                groups,
                patterns(quantization.path("ignore"), "ignore", notes),
                notes);
    }

    /** The group that covers a quantised module: one that names it, else one that names its class; empty when none does. */
    public Optional<Group> groupOf(String module) {
        return groups.stream()
                .filter(g -> g.weights() != null && g.names(module))
                .findFirst()
                .or(() -> groups.stream()
                        .filter(g -> g.weights() != null && g.namesClass())
                        .findFirst());
    }

    /** Classes of modules that attend and whose queries, keys and values are quantised, in the order of the file. */
    public List<String> attentionClasses() {
        return groups.stream()
                .filter(g -> g.weights() == null && g.inputs() != null)
                .flatMap(g -> g.targets().stream())
                .filter(t -> t instanceof ModulePattern.Name n && n.isAttention())
                .map(ModulePattern::text)
                .distinct()
                .toList();
    }

    /** Whether {@code ignore} names this module. */
    public boolean ignores(String module) {
        return ignore.stream().anyMatch(p -> p.matches(module));
    }

    private static Group group(String name, JsonNode node, List<String> notes) {
        if (node.isArray()) {
            // The short form: a preset's name and its targets.
            List<ModulePattern> targets = patterns(node, name, notes);
            Arguments weights = PRESETS.get(name);
            if (weights == null) {
                notes.add("config_groups: no preset is called '" + name + "'");
            }
            return new Group(name, targets, weights, null, "");
        }
        return new Group(
                name,
                patterns(node.path("targets"), name + ".targets", notes),
                arguments(node.path("weights")),
                arguments(node.path("input_activations")),
                node.path("format").asText(""));
    }

    private static @Nullable Arguments arguments(JsonNode node) {
        if (!node.isObject()) {
            return null;
        }
        int groupSize = node.path("group_size").asInt(0);
        int[] block = block(node.path("block_structure"));
        String strategy = node.path("strategy").asText("");
        if (strategy.isEmpty() || strategy.equals("null")) {
            strategy = block[0] > 0 ? "block" : groupSize > 0 ? "group" : groupSize < 0 ? "channel" : "tensor";
        }
        JsonNode dynamic = node.path("dynamic");
        return new Arguments(
                node.path("num_bits").asInt(8),
                node.path("type").asText("int").equalsIgnoreCase("float"),
                strategy,
                groupSize,
                block[0],
                block[1],
                node.path("symmetric").asBoolean(true),
                dynamic.isBoolean() ? dynamic.asBoolean() : dynamic.isTextual());
    }

    /** {@code [128, 128]}, or the older {@code "128x128"}; zeros for anything else. */
    private static int[] block(JsonNode node) {
        if (node.isArray() && node.size() == 2) {
            return new int[] {node.path(0).asInt(0), node.path(1).asInt(0)};
        }
        if (node.isTextual() && node.asText().matches("[0-9]{1,6}x[0-9]{1,6}")) {
            String text = node.asText();
            int x = text.indexOf('x');
            return new int[] {Integer.parseInt(text.substring(0, x)), Integer.parseInt(text.substring(x + 1))};
        }
        return new int[2];
    }

    private static List<ModulePattern> patterns(JsonNode list, String where, List<String> notes) {
        List<ModulePattern> patterns = new ArrayList<>();
        for (JsonNode entry : list) {
            ModulePattern pattern = ModulePattern.of(entry.asText());
            if (pattern instanceof ModulePattern.Invalid(String text, String reason)) {
                notes.add(where + ": '" + text + "' is not an usable pattern: " + reason);
            }
            patterns.add(pattern);
        }
        return patterns;
    }
}
