package dev.octet.converter.plan;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.QuantizedTensor;
import dev.octet.quant.scale.StoredScale;
import java.lang.foreign.ValueLayout;
import java.util.Map;

/**
 * Weights with the scales of a training run, so that the codes are those the run computed with: multiplied by the scale in FP32,
 * rounded to nearest, saturated, as Transformer Engine does (dividing by the reciprocal may differ by one unit before the rounding). A
 * weight without such a scale, or a recipe with more than one scale per weight, goes to {@code nearest}.
 *
 * @param quantScales multipliers by node id
 */
public record GivenRounding(Map<String, Float> quantScales, RoundToNearest nearest) implements WeightQuantizer {
    public GivenRounding {
        quantScales = Map.copyOf(quantScales);
    }

    @Override
    public QuantizedTensor quantize(Node linear, Tensor weight, OperandSpec spec) {
        Float quantScale = quantScales.get(linear.id());
        if (quantScale == null || !spec.perTensor()) {
            return nearest.quantize(linear, weight, spec);
        }
        Float8Format format = spec.format();
        Tensor codes = Tensor.allocate(nearest.arena(), new TensorSpec(weight.name(), format.dtype(), weight.shape()));
        for (long i = 0; i < weight.shape().elementCount(); i++) {
            float x = Floats.get(weight.dtype(), weight.bytes(), i) * quantScale;
            codes.bytes().set(ValueLayout.JAVA_BYTE, i, (byte) format.encode(x, Overflow.SATURATE));
        }
        DType scaleType = spec.scaleType();
        Tensor scale = ActivationScales.stored(
                StoredScale.round(1 / quantScale, scaleType), weight.name() + "_scale", scaleType, nearest.arena());
        return new QuantizedTensor(codes.spec(), codes.bytes(), scale, new Granularity.PerTensor(), format);
    }
}
