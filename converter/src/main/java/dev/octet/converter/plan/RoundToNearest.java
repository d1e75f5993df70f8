package dev.octet.converter.plan;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.Quantizer;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.gptq.BoundedPairs;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.QuantizedTensor;
import java.lang.foreign.Arena;
import java.util.Set;

/**
 * Each weight element to the nearest code, with scale amax / max per channel.
 *
 * @param arena owns codes and scales
 * @param bounded ids of the Linears whose products must not saturate ({@link BoundedPairs})
 */
public record RoundToNearest(Quantizer quantizer, Arena arena, Set<String> bounded) implements WeightQuantizer {
    public RoundToNearest {
        bounded = Set.copyOf(bounded);
    }

    /** With codes of any size. */
    public RoundToNearest(Quantizer quantizer, Arena arena) {
        this(quantizer, arena, Set.of());
    }

    @Override
    public QuantizedTensor quantize(Node linear, Tensor weight, OperandSpec spec) {
        if (bounded.contains(linear.id())) {
            boolean transB = linear.intAttribute("transB", 0) == 1;
            return BoundedPairs.nearest(weight, transB, asStored(linear, spec), 1, arena);
        }
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
