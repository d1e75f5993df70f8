package dev.octet.converter.plan;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.Quantizer;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.recipe.Operand;
import dev.octet.quant.scale.CastSpec;
import dev.octet.quant.scale.QuantizedTensor;
import dev.octet.quant.scale.ScaleRule;
import java.lang.foreign.Arena;

/**
 * Each weight element to the nearest code, with scale amax / max per channel.
 *
 * @param arena owns codes and scales
 */
public record RoundToNearest(Quantizer quantizer, Arena arena) implements WeightQuantizer {
    @Override
    public QuantizedTensor quantize(Node linear, Tensor weight, Operand operand, DType scaleType) {
        CastSpec spec = new CastSpec(
                operand.minifloat(),
                inLayoutOf(linear, operand.granularity()),
                new ScaleRule.AmaxRule(),
                Overflow.SATURATE,
                scaleType);
        return quantizer.quantize(weight, spec, arena).orElseThrow();
    }

    /** The recipe speaks of [out, in]; a weight stored [in, out] has its output channels on axis 1. */
    static Granularity inLayoutOf(Node linear, Granularity outIn) {
        boolean transposed = linear.intAttribute("transB", 0) == 0;
        return transposed && outIn instanceof Granularity.PerChannel(int axis)
                ? new Granularity.PerChannel(1 - axis)
                : outIn;
    }
}
