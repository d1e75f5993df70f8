package dev.octet.converter.plan;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
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
 * <p>Weights with {@linkplain LinearScales#weightScales learned scales} are divided by them, as fake quantisation does.
 *
 * @param scales by node id
 */
public record GivenRounding(Map<String, LinearScales> scales, RoundToNearest nearest) implements WeightQuantizer {
    public GivenRounding {
        scales = Map.copyOf(scales);
    }

    @Override
    public QuantizedTensor quantize(Node linear, Tensor weight, OperandSpec spec) {
        LinearScales given = scales.get(linear.id());
        if (given != null && given.weightScales() != null) {
            return learned(linear, weight, spec, given.weightScales());
        }
        Float quantScale = given == null ? null : given.weightQuantScale();
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

    private QuantizedTensor learned(Node linear, Tensor weight, OperandSpec spec, WeightScales given) {
        OperandSpec stored = RoundToNearest.asStored(linear, spec);
        Tensor wanted = given.in(spec.granularity(), nearest.arena())
                .orElseThrow(() -> new IllegalArgumentException("the scales of " + weight.name() + ", of blocks "
                        + given.blocks().blockShape() + ", do not go into "
                        + spec.granularity().text()));
        boolean turn = WeightScales.isTurned(linear) && wanted.shape().rank() == 2;
        Tensor multipliers = turn ? wanted.transposed(nearest.arena()) : wanted;
        QuantType type = spec.type();
        Tensor codes = Tensor.allocate(nearest.arena(), new TensorSpec(weight.name(), type.dtype(), weight.shape()));
        for (long i = 0; i < weight.shape().elementCount(); i++) {
            float x = Floats.get(weight.dtype(), weight.bytes(), i) / given.of(i);
            codes.bytes()
                    .set(ValueLayout.JAVA_BYTE, i, (byte) (type.isInteger() ? integer(x, type) : minifloat(x, type)));
        }
        Tensor scale = Tensor.allocate(
                nearest.arena(), new TensorSpec(weight.name() + "_scale", spec.scaleType(), multipliers.shape()));
        for (long i = 0; i < scale.shape().elementCount(); i++) {
            Floats.set(spec.scaleType(), scale.bytes(), i, multipliers.bytes().getAtIndex(Tensor.F32_LE, i));
        }
        return new QuantizedTensor(codes.spec(), codes.bytes(), scale, stored.granularity(), type);
    }

    /** Two's complement to its end: training uses the code -128, which rounding by amax never makes. */
    private static int integer(float x, QuantType type) {
        return (int) Math.rint(Math.clamp(x, -1f - type.highest(), (float) type.highest()));
    }

    private static int minifloat(float x, QuantType type) {
        return type.minifloat().orElseThrow().encode(x, Overflow.SATURATE);
    }
}
