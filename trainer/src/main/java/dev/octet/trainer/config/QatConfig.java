package dev.octet.trainer.config;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.CodeGrid;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.op.qat.QuantizeNode;
import dev.octet.trainer.qat.Method;
import dev.octet.trainer.qat.QatSettings;
import dev.octet.trainer.qat.QatSettings.LayerOverride;
import dev.octet.trainer.qat.QuantizerSettings;
import dev.octet.trainer.qat.ScaleLearning;
import dev.octet.trainer.yaml.Section;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;

/** Reads what {@code mode: qat} takes: how weights and inputs are fake-quantised, and what is different for some layers. */
final class QatConfig {
    private static final String WEIGHTS = "weights";
    private static final String INPUTS = "inputs";
    private static final String METHOD = "method";
    private static final String FORMAT = "format";
    private static final String GRANULARITY = "granularity";
    private static final String GROUP_SIZE = "group_size";
    private static final String QUANTIZE = "quantize";

    private static final Map<String, QuantizeNode.Count> COUNTS = Map.of(
            "shared", QuantizeNode.Count.SHARED,
            "tensor", QuantizeNode.Count.TENSOR,
            "features", QuantizeNode.Count.FEATURES,
            "none", QuantizeNode.Count.NONE);

    private static final Map<String, DType> SCALE_TYPES =
            Map.of("f32", DType.F32, "bf16", DType.BF16, "f16", DType.F16, "e8m0", DType.F8_E8M0);

    private QatConfig() {}

    static QatSettings read(Section s) {
        Method method = method(s, Method.LSQ);
        Optional<QuantizerSettings> weights = operand(s, WEIGHTS, method);
        Optional<QuantizerSettings> inputs = operand(s, INPUTS, method);
        QatSettings settings = new QatSettings(
                weights,
                inputs,
                s.flag("exempt_first", false),
                s.flag("exempt_last", false),
                s.sections("layers").stream()
                        .map(l -> l.read(layer -> layer(layer, method, weights, inputs)))
                        .toList(),
                s.section("scales").read(QatConfig::scales));
        boolean none = weights.isEmpty()
                && inputs.isEmpty()
                && settings.layers().stream()
                        .allMatch(l -> l.weights().isEmpty() && l.inputs().isEmpty());
        if (none) {
            throw s.error(
                    "mode",
                    "mode qat quantises neither weights nor inputs",
                    "add weights: {format: int4}, inputs: {format: int8}, or both");
        }
        return settings;
    }

    private static LayerOverride layer(
            Section s, Method usual, Optional<QuantizerSettings> weights, Optional<QuantizerSettings> inputs) {
        s.requiredText("match");
        boolean quantize = s.flag(QUANTIZE, true);
        Method method = method(s, usual);
        if (!quantize && (s.has(WEIGHTS) || s.has(INPUTS) || s.has(METHOD))) {
            throw s.error(
                    QUANTIZE,
                    "a layer that stays in floats has no weights, inputs or method",
                    "leave out quantize: false, or the other keys");
        }
        return new LayerOverride(
                s.patterns("match").getFirst(),
                quantize,
                s.has(WEIGHTS) ? operand(s, WEIGHTS, method) : weights,
                s.has(INPUTS) ? operand(s, INPUTS, method) : inputs);
    }

    private static Method method(Section s, Method usual) {
        Map<String, Method> methods = new LinkedHashMap<>();
        Arrays.stream(Method.values()).forEach(m -> methods.put(m.label(), m));
        return s.choice(METHOD, methods, usual);
    }

    /** What the key says; empty where it is missing, or {@code none}. */
    private static Optional<QuantizerSettings> operand(Section s, String key, Method usual) {
        if (!s.has(key)) {
            return Optional.empty();
        }
        if (!s.isSection(key)) {
            s.requiredChoice(key, Map.of("none", true));
            return Optional.empty();
        }
        return Optional.of(s.section(key).read(o -> operand(o, key.equals(WEIGHTS), usual)));
    }

    private static QuantizerSettings operand(Section s, boolean isWeight, Method usual) {
        CodeGrid grid = grid(s);
        return new QuantizerSettings(
                method(s, usual),
                grid,
                granularity(s, isWeight),
                s.choice("gradient_scale", COUNTS, QuantizeNode.Count.SHARED));
    }

    private static CodeGrid grid(Section s) {
        Map<String, CodeGrid> grids = new LinkedHashMap<>();
        boolean narrow = s.flag("narrow_range", false);
        for (int bits = 2; bits <= CodeGrid.MAX_BITS; bits++) {
            grids.put("int" + bits, narrow ? CodeGrid.Integers.symmetric(bits) : CodeGrid.Integers.signed(bits));
        }
        for (int bits = 1; bits <= CodeGrid.MAX_BITS; bits++) {
            grids.put("uint" + bits, CodeGrid.Integers.unsigned(bits));
        }
        grids.put("e4m3", new CodeGrid.Floats(Float8Format.E4M3FN));
        grids.put("e5m2", new CodeGrid.Floats(Float8Format.E5M2));
        CodeGrid grid = s.requiredChoice(FORMAT, grids);
        if (narrow && !(grid instanceof CodeGrid.Integers i && i.least() == -i.largest())) {
            throw s.error(
                    "narrow_range",
                    "narrow_range leaves out the smallest of signed integers, and the format is "
                            + s.text(FORMAT).orElse(""),
                    "leave it out, or choose int2 to int8");
        }
        return grid;
    }

    private static Granularity granularity(Section s, boolean isWeight) {
        int group = (int) s.whole(GROUP_SIZE, 128, 1, 1 << 20);
        Map<String, Granularity> choices = new LinkedHashMap<>();
        choices.put("tensor", new Granularity.PerTensor());
        if (isWeight) {
            choices.put("channel", new Granularity.PerChannel(-2));
            choices.put("group", new Granularity.PerGroup(-1, group));
            choices.put("block", new Granularity.PerBlock(group, group));
        }
        String usual = isWeight ? "channel" : "tensor";
        Granularity granularity = s.choice(GRANULARITY, choices, choices.get(usual));
        String name = s.text(GRANULARITY).orElse(usual).toLowerCase(Locale.ROOT);
        if (s.has(GROUP_SIZE) && !name.equals("group") && !name.equals("block")) {
            throw s.error(
                    GROUP_SIZE, "granularity " + name + " has no groups", "leave it out, or set granularity: group");
        }
        return granularity;
    }

    private static ScaleLearning scales(Section s) {
        OptionalLong fold = s.has("fold_at")
                ? OptionalLong.of(s.requiredWhole("fold_at", 1, Long.MAX_VALUE))
                : OptionalLong.empty();
        DType type = s.choice("type", SCALE_TYPES, DType.F32);
        if (s.has("type") && fold.isEmpty()) {
            throw s.error(
                    "type",
                    "scales are rounded to a type when they are folded, and fold_at is missing",
                    "add fold_at: STEP, a step before the run's last phase, or leave type out");
        }
        return new ScaleLearning(
                s.optionalNumber("lr_factor", 0, 1e6).map(OptionalDouble::of).orElse(OptionalDouble.empty()),
                (int) s.whole("start_batches", 1, 1, 1 << 20),
                fold,
                type);
    }
}
