package dev.octet.cli;

import dev.octet.pipeline.Quantize;
import dev.octet.quant.gptq.GptqOptions;
import dev.octet.quant.scale.ScaleSearch;
import java.util.List;
import java.util.Map;
import org.apache.commons.cli.Option;

/** Options of how weights are rounded. */
final class RoundingFlags {
    static final Map<String, Quantize.Rounding> ROUNDINGS =
            Map.of("gptq", Quantize.Rounding.GPTQ, "nearest", Quantize.Rounding.NEAREST);

    static final Option ROUNDING = Flags.value(
            "rounding",
            "NAME",
            "how weights are rounded: gptq (compensated, by second moments of the layers' inputs: from --calibration,"
                + " one more run over the data, or from 'octet calibrate --second-moments') or nearest (default: gptq"
                + " for ONNX models where there are second moments, else nearest)");

    private static final Map<String, ScaleSearch> SEARCHES =
            Flags.byName(List.of(ScaleSearch.values()), ScaleSearch::label);
    private static final Map<String, Boolean> ORDERS = Map.of("largest-first", true, "weight", false);

    static final Option SCALE_SEARCH = Flags.value(
            "scale-search",
            "NAME",
            "checkpoints: how the scale of each block, group or channel of a weight is chosen: "
                    + String.join(", ", SEARCHES.keySet())
                    + " (amax: by the largest magnitude; mse: the least squared error; hessian: the same, weighted by"
                    + " the second moments next to --statistics; four-over-six, of nvfp4: the largest magnitude"
                    + " becomes 6 or 4; default: amax)");
    static final Option GPTQ_DAMPING = Flags.value(
            "gptq-damping",
            "SHARE",
            "checkpoints, with --rounding gptq: what is added to the second moments' diagonal, as a share of its mean"
                    + " (default: " + GptqOptions.defaults().damping() + ")");
    static final Option GPTQ_ORDER = Flags.value(
            "gptq-order",
            "largest-first|weight",
            "checkpoints, with --rounding gptq: which input channels are rounded first, those with the largest squares"
                    + " (act-order) or those that come first in the weight (default: largest-first)");

    private RoundingFlags() {}

    /** How the weights of a checkpoint are rounded. */
    static Quantize.WeightRounds ofCheckpoint(Arguments arguments) {
        Quantize.WeightRounds usual = Quantize.WeightRounds.NEAREST;
        Quantize.Rounding method = arguments.choice(ROUNDING, ROUNDINGS, usual.method());
        GptqOptions gptq = usual.gptq();
        if (method != Quantize.Rounding.GPTQ) {
            arguments.refuse(
                    List.of(GPTQ_DAMPING, GPTQ_ORDER), "is an option of GPTQ", "give --rounding gptq, or leave it out");
        }
        gptq = gptq.withDamping(arguments.number(GPTQ_DAMPING, 0, 1).orElse(gptq.damping()))
                .withLargestFirst(arguments.choice(GPTQ_ORDER, ORDERS, gptq.largestFirst()));
        return new Quantize.WeightRounds(method, arguments.choice(SCALE_SEARCH, SEARCHES, usual.search()), gptq);
    }
}
