package dev.octet.converter.checkpoint;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.model.ExtraState;
import dev.octet.formats.torch.Fp8TrainingState;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.TensorStatistics;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Static scales of Linear inputs, from calibration statistics.
 *
 * <p>The statistics name the input of module {@code m} {@code m}, {@code m.input} or {@code m.weight}. Modules that engines fuse read the
 * same input and get one scale, their largest. An expert that no sample reached gets the largest scale of its siblings in the layer,
 * because consumers would read garbage without a scale.
 *
 * @param byModule multipliers by module
 * @param unreached experts that no sample reached and that got a sibling's scale, in the order of the checkpoint
 */
public record InputScales(Map<String, Float> byModule, List<String> unreached) {
    private static final List<String> SUFFIXES = List.of("", ".input", ".weight");
    /** The Linears of Transformer Engine's MLP, which has one state. */
    private static final List<String> MLP = List.of("fc1", "fc2");

    private static final Pattern EXPERT = Pattern.compile("\\.experts\\.(?:expert_)?\\d{1,9}\\.");

    public InputScales {
        byModule = Map.copyOf(byModule);
        unreached = List.copyOf(unreached);
    }

    /**
     * Computes the input scales of all weights in {@code weights} that the statistics cover.
     *
     * @param weights own names of the weights that may be quantised
     * @throws InvalidDataException when the statistics cover none of them, or count NaN or infinite elements for one
     */
    public static InputScales of(Statistics statistics, Calibrator calibrator, Recipe recipe, List<String> weights) {
        OperandSpec input = recipe.input();
        QuantType codes = input == null ? QuantType.E4M3FN : input.type();
        Map<String, Float> scales = new LinkedHashMap<>();
        List<String> unreached = new ArrayList<>();
        for (String weight : weights) {
            String module = StoredWeight.moduleOf(weight);
            TensorStatistics t = find(statistics, module);
            if (t != null) {
                requireFinite(module, t);
                if (t.count() > 0 && t.amax() > 0) {
                    scales.put(module, scale(calibrator, t, codes));
                } else {
                    unreached.add(module);
                }
            } else if (EXPERT.matcher(module).find()) {
                unreached.add(module);
            }
        }
        if (scales.isEmpty()) {
            throw new InvalidDataException(
                    "the statistics cover the input of none of the " + weights.size() + " weights",
                    "statistics of " + statistics.tensors().size() + " values"
                            + statistics.tensors().keySet().stream()
                                    .findFirst()
                                    .map(n -> ", as " + n)
                                    .orElse(""),
                    "take statistics of this model; values are named as the modules, as "
                            + weights.stream()
                                    .findFirst()
                                    .map(StoredWeight::moduleOf)
                                    .orElse("layer"));
        }
        List<String> filled = fillExperts(scales, unreached);
        unifyFused(scales, weights);
        return new InputScales(scales, filled);
    }

    /**
     * Takes known scales, for example of a training run; modules that engines fuse get their largest.
     *
     * @param byModule multipliers by module
     * @param weights own names of the weights that may be quantised
     */
    public static InputScales given(Map<String, Float> byModule, List<String> weights) {
        Map<String, Float> scales = new LinkedHashMap<>(byModule);
        unifyFused(scales, weights);
        return new InputScales(scales, List.of());
    }

    /**
     * Takes what Transformer Engine kept of FP8 training: the largest amax of the history of each input, over the largest number of the codes. A recipe's margin is
     * left out, and so are modules that were never quantised.
     *
     * @param states of the checkpoint
     * @param weights own names of the weights that may be quantised
     * @throws InvalidDataException when the states are of none of them
     * @throws dev.octet.formats.error.OctetException when a state is damaged
     */
    public static InputScales ofTraining(List<ExtraState> states, Recipe recipe, List<String> weights)
            throws IOException {
        OperandSpec input = recipe.input();
        QuantType codes = input == null ? QuantType.E4M3FN : input.type();
        Set<String> modules = new HashSet<>();
        weights.forEach(w -> modules.add(StoredWeight.moduleOf(w)));
        Map<String, Float> scales = new LinkedHashMap<>();
        Set<String> without = new TreeSet<>();
        for (ExtraState stored : states) {
            Fp8TrainingState state = Fp8TrainingState.of(stored);
            if (state.gemms().isEmpty()) {
                without.add(state.recipe());
            }
            for (int g = 0; g < state.gemms().size(); g++) {
                float amax = state.gemms().get(g).input().largestAmax();
                for (String module : linears(stored, state.gemms().size(), g)) {
                    if (modules.contains(module) && amax > 0 && Float.isFinite(amax)) {
                        scales.put(module, scale(amax, codes));
                    }
                }
            }
        }
        if (scales.isEmpty()) {
            without.remove("");
            throw new InvalidDataException(
                    states.isEmpty()
                            ? "the checkpoint has no states of FP8 training by Transformer Engine"
                            : "the states of FP8 training have no amax of the input of any of the " + weights.size()
                                    + " weights"
                                    + (without.isEmpty() ? "" : "; " + String.join(", ", without) + " keeps none"),
                    states.isEmpty() ? "--training-scales" : states.getFirst().where(),
                    "give --statistics FILE, which `octet calibrate` makes; `octet inspect` shows the" + " states");
        }
        unifyFused(scales, weights);
        return new InputScales(scales, List.of());
    }

    /** The Linears of one product of a module: of an MLP its two, of any other the module itself. */
    private static List<String> linears(ExtraState stored, int gemms, int gemm) {
        return gemms == 1
                ? stored.linears()
                : gemms == MLP.size()
                        ? stored.linears().stream()
                                .map(m -> m + "." + MLP.get(gemm))
                                .toList()
                        : List.of();
    }

    private static @Nullable TensorStatistics find(Statistics statistics, String module) {
        for (String suffix : SUFFIXES) {
            TensorStatistics t = statistics.tensors().get(module + suffix);
            if (t != null) {
                return t;
            }
        }
        return null;
    }

    private static void requireFinite(String module, TensorStatistics t) {
        if (t.nans() + t.infinities() > 0) {
            throw new InvalidDataException(
                    "the input had " + (t.nans() + t.infinities()) + " NaN or infinite elements in calibration",
                    "module '" + module + "'",
                    "look at the data and the model, or leave the module out with `octet quantize --keep`");
        }
    }

    /**
     * The multiplier that maps the clip to the largest code; for NVFP4's second level, to the largest code times the largest block scale.
     */
    private static float scale(Calibrator calibrator, TensorStatistics t, QuantType codes) {
        return scale(calibrator.clip(t, codes.minifloat().orElse(Float8Format.E4M3FN)), codes);
    }

    private static float scale(double clip, QuantType codes) {
        double top = codes.maxValue() * (codes == QuantType.E2M1 ? Float8Format.E4M3FN.maxValue() : 1.0);
        return Math.max((float) (clip / top), Float.MIN_NORMAL);
    }

    private static List<String> fillExperts(Map<String, Float> scales, List<String> unreached) {
        Map<String, Float> largest = new HashMap<>();
        scales.forEach((module, scale) -> largest.merge(anyExpert(module), scale, Math::max));
        List<String> filled = new ArrayList<>();
        for (String module : unreached) {
            Float scale = EXPERT.matcher(module).find() ? largest.get(anyExpert(module)) : null;
            if (scale != null) {
                scales.put(module, scale);
                filled.add(module);
            }
        }
        return filled;
    }

    private static String anyExpert(String module) {
        return EXPERT.matcher(module).replaceFirst(".experts.*.");
    }

    private static void unifyFused(Map<String, Float> scales, List<String> weights) {
        Map<String, Float> largest = new HashMap<>();
        for (String weight : weights) {
            Float scale = scales.get(StoredWeight.moduleOf(weight));
            if (scale != null) {
                LinearNames.fusedGroup(weight).ifPresent(g -> largest.merge(g, scale, Math::max));
            }
        }
        for (String weight : weights) {
            LinearNames.fusedGroup(weight)
                    .map(largest::get)
                    .ifPresent(s -> scales.computeIfPresent(StoredWeight.moduleOf(weight), (_, _) -> s));
        }
    }
}
