package dev.octet.converter.plan;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.Quantizer;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.QuantizedTensor;
import java.lang.foreign.Arena;

/**
 * Each weight element to the nearest code, with scale amax / max per channel.
 *
 * @param arena owns codes and scales
 */
public record RoundToNearest(Quantizer quantizer, Arena arena) implements WeightQuantizer {
    @Override
    public QuantizedTensor quantize(Node linear, Tensor weight, OperandSpec spec) {
        return quantizer.quantize(weight, asStored(linear, spec), arena).orElseThrow();
    }

    /** The recipe speaks of [out, in]; a weight stored [in, out] has its output channels on axis 1. */
    static OperandSpec asStored(Node linear, OperandSpec outIn) {
        boolean turned = linear.intAttribute("transB", 0) == 0;
        if (outIn.granularity() instanceof Granularity.PerGroup(int axis, int size)) {
            int own = Math.floorMod(axis, 2);
            return outIn.with(new Granularity.PerGroup(turned ? 1 - own : own, size));
        }
        if (!(outIn.granularity() instanceof Granularity.PerChannel(int axis))) {
            return outIn;
        }
        int own = Math.floorMod(axis, 2);
        return outIn.with(new Granularity.PerChannel(turned ? 1 - own : own));
    }
}
