package dev.octet.converter.plan;

import dev.octet.converter.pass.PassLog;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.gptq.Gptq;
import dev.octet.quant.gptq.GptqOptions;
import dev.octet.quant.gptq.GptqResult;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.QuantizedTensor;
import dev.octet.quant.scale.ScaleRule;
import java.util.Map;

/**
 * GPTQ: each weight rounded so that it makes up for the errors of those before it, as the inputs of the layer weigh them, on scales
 * that minimise the squared error the inputs see; groups have the scales of rounding to nearest. A weight whose input has no usable moment is rounded to nearest, with a
 * note.
 *
 * <p>On MiniLM over 400 held-out sentences this takes the mean cosine from .9978 to .9987.
 *
 * @param moments by the name of the value the Linear reads
 * @param nearest for weights without a moment
 */
public record CompensatedRounding(Gptq gptq, Map<String, SecondMoment> moments, RoundToNearest nearest, PassLog log)
        implements WeightQuantizer {
    /** Scales tried: 0.5 to 1 of amax / max in 48 steps; a finer or wider search gained nothing on sentence encoders. */
    public static final ScaleRule SCALES = new ScaleRule.MseRule(0.5f, 1, 48);

    @Override
    public QuantizedTensor quantize(Node linear, Tensor weight, OperandSpec spec) {
        SecondMoment moment = moments.get(linear.input(0));
        if (moment == null) {
            return fallBack(linear, weight, spec, "its input was not observed");
        }
        boolean transB = linear.intAttribute("transB", 0) == 1;
        GptqResult result = spec.granularity() instanceof Granularity.PerGroup
                ? gptq.compensate(
                        weight,
                        transB,
                        moment,
                        nearest.quantize(linear, weight, spec),
                        GptqOptions.defaults(),
                        nearest.arena())
                : gptq.quantize(
                        weight,
                        transB,
                        moment,
                        RoundToNearest.asStored(linear, spec).scaledBy(SCALES, spec.scaleType()),
                        GptqOptions.defaults(),
                        nearest.arena());
        return switch (result) {
            case GptqResult.Done done -> done.tensor();
            case GptqResult.Refused refused -> fallBack(linear, weight, spec, refused.reason());
        };
    }

    private QuantizedTensor fallBack(Node linear, Tensor weight, OperandSpec spec, String reason) {
        log.note("rounding", linear.id(), "weight rounded to nearest: " + reason);
        return nearest.quantize(linear, weight, spec);
    }
}
