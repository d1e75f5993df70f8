package dev.octet.trainer.config;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.calibrate.Percentile;
import dev.octet.quant.number.CodeGrid;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import dev.octet.trainer.op.qat.GradientQuantize;
import dev.octet.trainer.op.qat.QuantizeNode;
import dev.octet.trainer.qat.Method;
import dev.octet.trainer.qat.QatSettings;
import dev.octet.trainer.qat.QatSettings.LayerOverride;
import dev.octet.trainer.qat.QuantizerSettings;
import dev.octet.trainer.qat.QuantizerSettings.Levels;
import dev.octet.trainer.qat.QuantizerSettings.Variant;
import dev.octet.trainer.qat.ScaleLearning;
import dev.octet.trainer.qat.ScaleLearning.Calibration;
import dev.octet.trainer.yaml.Section;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.stream.Stream;

/** Reads what {@code mode: qat} takes: how weights and inputs are fake-quantised, and what is different for some layers. */
final class QatConfig {
    private static final String WEIGHTS = "weights";
    private static final String INPUTS = "inputs";
    private static final String METHOD = "method";
    private static final String FORMAT = "format";
    private static final String GRANULARITY = "granularity";
    private static final String GROUP_SIZE = "group_size";
    private static final String QUANTIZE = "quantize";
    private static final String CALIBRATOR = "calibrator";
    private static final String START_BATCHES = "start_batches";

    private static final Map<String, QuantizeNode.Count> COUNTS = Map.of(
            "shared", QuantizeNode.Count.SHARED,
            "tensor", QuantizeNode.Count.TENSOR,
            "features", QuantizeNode.Count.FEATURES,
            "none", QuantizeNode.Count.NONE);

    private static final Map<String, Levels> LEVELS = Map.of("nvfp4", Levels.TWO, "mxfp8", Levels.POWER_OF_TWO);

    private static final Map<String, Variant> VARIANTS = Map.of(
            "paper", Variant.PAPER,
            "code", Variant.CODE,
            "amax", Variant.AMAX,
            "tied", Variant.TIED,
            "dual", Variant.DUAL,
            "through_scale", Variant.THROUGH_SCALE,
            "zero_point", Variant.ZERO_POINT);

    private static final Map<String, DType> SCALE_TYPES =
            Map.of("f32", DType.F32, "bf16", DType.BF16, "f16", DType.F16, "e8m0", DType.F8_E8M0);

    private QatConfig() {}

    /** @param folder base of relative paths */
    static QatSettings read(Section s, Path folder) {
        Method method = method(s, Method.LSQ);
        Optional<QuantizerSettings> weights = operand(s, WEIGHTS, method);
        Optional<QuantizerSettings> inputs = operand(s, INPUTS, method);
        QatSettings settings = new QatSettings(
                weights,
                inputs,
                s.has("gradients") ? s.section("gradients").read(QatConfig::gradientBits) : OptionalInt.empty(),
                s.flag("exempt_first", false),
                s.flag("exempt_last", false),
                s.sections("layers").stream()
                        .map(l -> l.read(layer -> layer(layer, method, weights, inputs)))
                        .toList(),
                s.section("scales").read(x -> scales(x, folder)));
        settings.scales().calibration().ifPresent(c -> requireKnown(s, settings, c));
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

    private static OptionalInt gradientBits(Section s) {
        return OptionalInt.of((int) s.requiredWhole("bits", 1, GradientQuantize.MAX_BITS));
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
        Method method = method(s, usual);
        Levels levels = LEVELS.getOrDefault(s.text(FORMAT).orElse("").toLowerCase(Locale.ROOT), Levels.ONE);
        CodeGrid grid = grid(s);
        QuantizerSettings settings = new QuantizerSettings(
                method,
                grid,
                granularity(s, isWeight, levels, method),
                s.choice("gradient_scale", COUNTS, QuantizeNode.Count.SHARED),
                levels,
                s.choice("variant", VARIANTS, Variant.PAPER));
        requireFit(s, isWeight, settings);
        return settings;
    }

    /** Rejects what a method cannot do. */
    private static void requireFit(Section s, boolean isWeight, QuantizerSettings o) {
        String format = s.text(FORMAT).orElse("");
        if (!o.variant().isOf(o.method())) {
            List<String> known = VARIANTS.entrySet().stream()
                    .filter(v -> v.getValue().isOf(o.method()))
                    .map(Map.Entry::getKey)
                    .sorted()
                    .toList();
            throw s.error(
                    "variant",
                    o.method().label() + " has no variant " + s.text("variant").orElse(""),
                    known.size() == 1 ? "leave it out" : "choose " + String.join(" or ", known));
        }
        boolean integers = o.grid() instanceof CodeGrid.Integers;
        if (o.variant() == Variant.ZERO_POINT) {
            if (!integers) {
                throw s.error(
                        FORMAT,
                        "zero points are for integers, and the format is " + format,
                        "choose int2 to int8 or uint2 to uint8, or leave variant out");
            }
            if (isWeight) {
                throw s.error(
                        "variant",
                        "zero points that follow from the values of each step are for inputs",
                        "leave variant out, or set method: range, which learns zero points of weights");
            }
        }
        boolean unsigned = o.grid() instanceof CodeGrid.Integers(int least, int _) && least == 0;
        switch (o.method()) {
            case PACT -> {
                if (isWeight) {
                    throw s.error(
                            METHOD,
                            "PACT clips what is never negative, and weights are",
                            "set weights: {method: dorefa}, as its authors do, or lsq");
                }
                if (!unsigned) {
                    throw s.error(FORMAT, "PACT's codes are unsigned, " + format + " is not", "choose uint2 to uint8");
                }
            }
            case DOREFA -> {
                if (!unsigned) {
                    throw s.error(
                            FORMAT, "DoReFa's codes are unsigned, " + format + " is not", "choose uint2 to uint8");
                }
                if (!(o.granularity() instanceof Granularity.PerTensor)) {
                    throw s.error(GRANULARITY, "DoReFa has one range for a tensor", "set granularity: tensor");
                }
            }
            case LSQ_PLUS, RANGE -> {
                if (!integers) {
                    throw s.error(
                            FORMAT,
                            o.method().label() + " is for integers, and the format is " + format,
                            "choose int2 to int8 or uint2 to uint8, or method: lsq");
                }
            }
            case LSQ -> {
                if (!isWeight && o.levels() != Levels.ONE) {
                    throw s.error(
                            METHOD,
                            "the blocks of an input have other values in each step, so their scales cannot be learned",
                            "set method: dynamic");
                }
            }
            case FIXED, DYNAMIC, MODELOPT_LSQ -> {}
        }
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
        grids.put("mxfp8", new CodeGrid.Floats(Float8Format.E4M3FN));
        grids.put("nvfp4", new CodeGrid.Floats(Float8Format.E2M1));
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

    private static Granularity granularity(Section s, boolean isWeight, Levels levels, Method method) {
        int usualSize = levels == Levels.TWO ? 16 : levels == Levels.POWER_OF_TWO ? 32 : 128;
        int group = (int) s.whole(GROUP_SIZE, usualSize, 1, 1 << 20);
        Map<String, Granularity> choices = new LinkedHashMap<>();
        choices.put("tensor", new Granularity.PerTensor());
        if (isWeight) {
            choices.put("channel", new Granularity.PerChannel(-2));
            choices.put("block", new Granularity.PerBlock(group, group));
        } else if (method == Method.DYNAMIC) {
            choices.put("token", new Granularity.PerToken());
        }
        if (isWeight || method == Method.DYNAMIC) {
            choices.put("group", new Granularity.PerGroup(-1, group));
        }
        String usual = levels != Levels.ONE
                ? "group"
                : method == Method.DOREFA || method == Method.PACT
                        ? "tensor"
                        : isWeight ? "channel" : method == Method.DYNAMIC ? "token" : "tensor";
        Granularity granularity =
                s.choice(GRANULARITY, choices, choices.getOrDefault(usual, new Granularity.PerTensor()));
        String name = s.text(GRANULARITY).orElse(usual).toLowerCase(Locale.ROOT);
        if (s.has(GROUP_SIZE) && !name.equals("group") && !name.equals("block")) {
            throw s.error(
                    GROUP_SIZE, "granularity " + name + " has no groups", "leave it out, or set granularity: group");
        }
        return granularity;
    }

    /** Calibrators that look at the codes know those that files have. */
    private static void requireKnown(Section s, QatSettings settings, Calibration calibration) {
        if (calibration.calibrator() instanceof Absmax || calibration.calibrator() instanceof Percentile) {
            return;
        }
        Stream.concat(settings.inputs().stream(), settings.layers().stream().flatMap(l -> l.inputs().stream()))
                .filter(i -> i.grid() instanceof CodeGrid.Integers codes
                        && QuantType.integers(codes.bits(), false).isEmpty())
                .findFirst()
                .ifPresent(i -> {
                    throw s.section("scales")
                            .error(
                                    CALIBRATOR,
                                    calibration.calibrator().text() + " is for integers of 4 or 8 bits, and inputs are "
                                            + i.grid().text(),
                                    "choose absmax, or percentile:P");
                });
    }

    private static Optional<Calibration> calibration(Section s, Path folder) {
        Optional<Path> statistics = s.path("statistics", folder);
        String text = s.text(CALIBRATOR).orElse(new Absmax().text());
        if (statistics.isEmpty()) {
            if (s.has(CALIBRATOR)) {
                throw s.error(
                        CALIBRATOR,
                        "a calibrator chooses ranges from statistics, and there are none",
                        "add statistics: FILE, which octet calibrate makes, or leave calibrator out");
            }
            return Optional.empty();
        }
        if (s.has(START_BATCHES)) {
            throw s.error(
                    START_BATCHES,
                    "ranges of inputs come from the statistics, and no micro-batch is looked at",
                    "leave out start_batches, or statistics");
        }
        try {
            return Optional.of(new Calibration(statistics.get(), Calibrator.parse(text)));
        } catch (InvalidOptionException e) {
            throw s.error(CALIBRATOR, e.what(), e.fix());
        }
    }

    private static ScaleLearning scales(Section s, Path folder) {
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
                (int) s.whole(START_BATCHES, 1, 1, 1 << 20),
                calibration(s, folder),
                fold,
                type);
    }
}
