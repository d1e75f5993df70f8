package dev.octet.quant.layout;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.OperandSpec.Scaling;
import dev.octet.quant.recipe.Recipes;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * How the consumers of a checkpoint quantise what its quantised Linears read: E4M3, integers of eight bits (with zero points for each token), NVFP4.
 *
 * <p>Each layout says so in its own way ({@link Layout#inputs}). What a configuration leaves open is what vLLM does on a GPU with FP8.
 *
 * @param byWeight by the own name of the weight; those whose inputs stay as they are, or are of another kind, are not in it
 * @param notes inputs that are quantised in a way that these forms cannot express, one line each
 */
public record InputForms(Map<String, OperandSpec> byWeight, List<String> notes) {
    /** What inputs are rounded to, by the codes of the weights that they meet. */
    private static final Map<QuantType, QuantType> INPUTS = Map.of(
            QuantType.E4M3FN, QuantType.E4M3FN,
            QuantType.E4M3FNUZ, QuantType.E4M3FN,
            QuantType.INT8, QuantType.INT8,
            QuantType.INT8_ASYMMETRIC, QuantType.INT8,
            QuantType.INT4, QuantType.INT8,
            QuantType.INT4_ASYMMETRIC, QuantType.INT8,
            QuantType.E2M1, QuantType.E2M1);

    public InputForms {
        byWeight = Collections.unmodifiableMap(new LinkedHashMap<>(byWeight));
        notes = List.copyOf(notes);
    }

    /**
     * The forms of all quantised weights.
     *
     * @param config {@code config.json}, null when there is none
     * @param quantConfig {@code hf_quant_config.json}, null when there is none
     */
    public static InputForms of(
            StoredCheckpoint stored, @Nullable ObjectNode config, @Nullable ObjectNode quantConfig) {
        Map<String, OperandSpec> forms = new LinkedHashMap<>();
        Map<String, Integer> unknown = new LinkedHashMap<>();
        ObjectNode quantization = Configs.quantization(config).orElse(null);
        Function<StoredWeight, Found> inputs = Layouts.named(stored.layout())
                .map(l -> l.inputs(quantization, quantConfig))
                .orElse(Found::ofScale);
        for (StoredWeight weight : stored.weights().values()) {
            Found found = inputs.apply(weight);
            OperandSpec form = found.form();
            if (form == null ? !INPUTS.containsKey(weight.codes()) : !meets(form, weight)) {
                found = Found.unknown("inputs of weights in " + weight.codes() + " are left as they are");
            }
            if (found.form() != null) {
                forms.put(weight.name(), found.form());
            }
            if (!found.unknown().isEmpty()) {
                unknown.merge(found.unknown(), 1, Integer::sum);
            }
        }
        List<String> notes = new ArrayList<>();
        unknown.forEach((what, count) -> notes.add(what + " (" + count + " weights)"));
        return new InputForms(forms, notes);
    }

    private static boolean meets(OperandSpec form, StoredWeight weight) {
        QuantType codes = form.type() == QuantType.INT8_ASYMMETRIC ? QuantType.INT8 : form.type();
        return codes == INPUTS.get(weight.codes());
    }

    /**
     * What a layout says of one weight's inputs.
     *
     * @param form null where they stay as they are
     * @param unknown why they stay as they are although consumers quantise them; empty where consumers do not
     */
    public record Found(@Nullable OperandSpec form, String unknown) {
        static final Found PLAIN = new Found(null, "");
        static final Found STATIC = of(spec(new Granularity.PerTensor(), new Scaling.FromStatistics()));
        static final Found PER_TENSOR = of(dynamic(new Granularity.PerTensor()));
        static final Found PER_TOKEN = of(dynamic(new Granularity.PerToken()));
        static final Found MICROSCALED = of(dynamic(new Granularity.Mx(32)));
        static final Found INTEGERS_PER_TOKEN = of(Recipes.INT8.input());
        static final Found AFFINE_PER_TOKEN = of(Recipes.INT8_AFFINE_INPUTS.input());

        private static final Found INTEGERS_STATIC =
                of(new OperandSpec(QuantType.INT8, new Granularity.PerTensor(), new Scaling.FromStatistics()));

        private static OperandSpec spec(Granularity granularity, Scaling scaling) {
            return new OperandSpec(QuantType.E4M3FN, granularity, scaling);
        }

        /** Scales are amax / 448 of the values at run time. */
        private static OperandSpec dynamic(Granularity granularity) {
            return spec(granularity, new Scaling.Dynamic());
        }

        private static Found of(@Nullable OperandSpec form) {
            return new Found(form, "");
        }

        static Found unknown(String what) {
            return new Found(null, what);
        }

        /** Static where the weight has an input scale, otherwise plain: nothing else says how. */
        static Found ofScale(StoredWeight weight) {
            return weight.inputScale() == null ? PLAIN : STATIC;
        }

        /** Static by the configuration. */
        static Found statically(StoredWeight weight) {
            return weight.inputScale() == null
                    ? unknown("inputs whose static scale is missing are left as they are: `octet verify` names them")
                    : STATIC;
        }

        /** Integers, static by the configuration. */
        static Found integers(StoredWeight weight) {
            Found found = statically(weight);
            return found.equals(STATIC) ? INTEGERS_STATIC : found;
        }

        /** NVFP4: scales of blocks at run time under one that is in the file. */
        static Found fourBits(StoredWeight weight) {
            Found found = statically(weight);
            return found.equals(STATIC) ? of(Recipes.NVFP4.input()) : found;
        }

        /** {@code size} neighbours of a token share a scale. */
        static Found group(int size) {
            return size > 0
                    ? of(dynamic(new Granularity.PerGroup(-1, size)))
                    : unknown("inputs in groups of unknown size are left as they are");
        }
    }
}
