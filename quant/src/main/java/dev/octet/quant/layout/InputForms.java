package dev.octet.quant.layout;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec.Scaling;
import dev.octet.quant.recipe.OperandSpec;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * How the consumers of a checkpoint quantise what its quantised Linears read, as far as it is E4M3.
 *
 * <p>Layouts say so in their own ways: compressed-tensors by {@code input_activations}, fp8 by {@code activation_scheme} and the width of a block,
 * modelopt by {@code quant_algo}. What is left open is what vLLM does on a GPU with FP8: activations of {@code fp8} without blocks get one scale for
 * each token ({@code model_executor/layers/quantization/fp8.py}), those of {@code fp8_pb_wo} one for 128 inputs
 * ({@code model_executor/layers/quantization/modelopt.py}), whatever "weight only" there says.
 *
 * @param byWeight all in E4M3, with static or dynamic scales, by the own name of the weight; those whose inputs stay as they are, or are of another kind, are not in it
 * @param notes inputs that are quantised in a way that is not told here, one line each
 */
public record InputForms(Map<String, OperandSpec> byWeight, List<String> notes) {
    public InputForms {
        byWeight = Collections.unmodifiableMap(new LinkedHashMap<>(byWeight));
        notes = List.copyOf(notes);
    }

    private static final OperandSpec STATIC = form(new Granularity.PerTensor(), new Scaling.FromStatistics());
    private static final OperandSpec PER_TOKEN = dynamic(new Granularity.PerToken());

    private static OperandSpec form(Granularity granularity, Scaling scaling) {
        return new OperandSpec(QuantType.E4M3FN, granularity, scaling);
    }

    /** Scales are amax / 448 of what comes. */
    private static OperandSpec dynamic(Granularity granularity) {
        return form(granularity, new Scaling.Dynamic());
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
        CompressedTensorsConfig compressed =
                quantization != null && Configs.method(quantization).equals(CompressedTensorsLayout.NAME)
                        ? CompressedTensorsConfig.of(quantization)
                        : null;
        String algorithm = algorithm(quantization, quantConfig);
        for (StoredWeight weight : stored.weights().values()) {
            Found found;
            if (weight.codes() != QuantType.E4M3FN && weight.codes() != QuantType.E4M3FNUZ) {
                found = Found.unknown("inputs of weights in " + weight.codes() + " are left as they are");
            } else if (compressed != null) {
                found = compressed(compressed, weight);
            } else if (stored.layout().equals(Fp8Layout.NAME)) {
                found = fp8(quantization, weight);
            } else if (stored.layout().equals(ModelOptLayout.NAME)) {
                found = modelOpt(algorithm, weight);
            } else {
                found = weight.inputScale() == null ? Found.plain() : Found.of(STATIC);
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

    /** A form, nothing, or why there is none. */
    private record Found(@Nullable OperandSpec form, String unknown) {
        static Found of(OperandSpec form) {
            return new Found(form, "");
        }

        static Found plain() {
            return new Found(null, "");
        }

        static Found unknown(String what) {
            return new Found(null, what);
        }
    }

    private static Found compressed(CompressedTensorsConfig config, StoredWeight weight) {
        Optional<CompressedTensorsConfig.Arguments> inputs =
                config.groupOf(weight.module()).flatMap(g -> Optional.ofNullable(g.inputs()));
        if (inputs.isEmpty()) {
            return Found.plain();
        }
        CompressedTensorsConfig.Arguments a = inputs.orElseThrow();
        if (!a.isFloat() || a.bits() != 8) {
            return Found.unknown("inputs of " + a.bits() + " bits are left as they are");
        }
        if (weight.granularity() instanceof Granularity.Mx) {
            return microscaled();
        }
        if (!a.dynamic()) {
            return statically(weight);
        }
        return switch (a.strategy()) {
            case "tensor" -> Found.of(dynamic(new Granularity.PerTensor()));
            case "token" -> Found.of(PER_TOKEN);
            case "group" -> group(a.groupSize());
            default -> Found.unknown("inputs of strategy " + a.strategy() + " are left as they are");
        };
    }

    private static Found fp8(@Nullable ObjectNode quantization, StoredWeight weight) {
        if (quantization == null) {
            return weight.inputScale() == null ? Found.plain() : Found.of(STATIC);
        }
        if (quantization.path("activation_scheme").asText("dynamic").equals("static")) {
            return statically(weight);
        }
        return switch (weight.granularity()) {
            case Granularity.PerBlock(int _, int cols) -> group(cols);
            case Granularity.PerGroup(int _, int size) -> group(size);
            case Granularity.Mx _ -> microscaled();
            case Granularity.PerTensor _, Granularity.PerChannel _, Granularity.PerToken _ -> Found.of(PER_TOKEN);
        };
    }

    private static Found modelOpt(String algorithm, StoredWeight weight) {
        return switch (algorithm) {
            case "FP8" -> statically(weight);
            case "FP8_PER_CHANNEL_PER_TOKEN" -> Found.of(PER_TOKEN);
            case "FP8_PB_WO" -> group(128);
            case "MXFP8" -> microscaled();
            default ->
                weight.inputScale() == null
                        ? Found.unknown("inputs of " + (algorithm.isEmpty() ? "an unknown quant_algo" : algorithm)
                                + " are left as they are")
                        : Found.of(STATIC);
        };
    }

    private static Found statically(StoredWeight weight) {
        return weight.inputScale() == null
                ? Found.unknown("inputs whose static scale is missing are left as they are: `octet verify` names them")
                : Found.of(STATIC);
    }

    private static Found group(int size) {
        return size > 0
                ? Found.of(dynamic(new Granularity.PerGroup(-1, size)))
                : Found.unknown("inputs in groups of unknown size are left as they are");
    }

    private static Found microscaled() {
        return Found.unknown("inputs in MX blocks, whose scales are powers of two, are left as they are");
    }

    private static String algorithm(@Nullable ObjectNode quantization, @Nullable ObjectNode quantConfig) {
        String beside = quantConfig == null
                ? ""
                : quantConfig.path("quantization").path("quant_algo").asText("");
        String inside = quantization == null
                ? ""
                : quantization
                        .path("quant_algo")
                        .asText(quantization
                                .path("quantization")
                                .path("quant_algo")
                                .asText(""));
        return (beside.isEmpty() ? inside : beside).toUpperCase(Locale.ROOT);
    }
}
