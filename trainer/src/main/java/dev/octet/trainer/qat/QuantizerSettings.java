package dev.octet.trainer.qat;

import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.CodeGrid;
import dev.octet.trainer.op.qat.QuantizeNode;

/**
 * How one operand of products is fake-quantised.
 *
 * @param method where its scales come from
 * @param grid of its codes
 * @param granularity which elements share a scale: of a weight in [out, in] order, of an input in [..., in] order
 * @param count what N counts in the factor of the gradients of scales
 * @param levels how scales are stored
 * @param variant which of a method's ways
 */
public record QuantizerSettings(
        Method method,
        CodeGrid grid,
        Granularity granularity,
        QuantizeNode.Count count,
        Levels levels,
        Variant variant) {
    /** How scales are stored. */
    public enum Levels {
        /** One number. */
        ONE,
        /** In E4M3, under one number for the tensor: NVFP4. */
        TWO,
        /** Powers of two: MX formats. */
        POWER_OF_TWO
    }

    /** What a method leaves open. */
    public enum Variant {
        /** As its paper has it. */
        PAPER,
        /** As the code of its authors has it: LSQ+ divides by 2^bits - 1 where its paper divides by 2^(bits - 1). */
        CODE,
        /** LSQ's scales start at the largest magnitude divided by the largest code, where those of a calibrated model are. */
        AMAX,
        /** ModelOpt's LSQ with one amax for making and reading codes. */
        TIED,
        /** ModelOpt's LSQ with both amaxes learned. */
        DUAL,
        /** Dynamic scales through which gradients flow, as torchao has those of floats. */
        THROUGH_SCALE,
        /** Dynamic zero points beside the scales, as torchao has those of integers per token. */
        ZERO_POINT;

        /** Whether a method has this variant. */
        public boolean isOf(Method method) {
            return switch (this) {
                case PAPER -> true;
                case CODE -> method == Method.LSQ_PLUS;
                case AMAX -> method == Method.LSQ;
                case TIED, DUAL -> method == Method.MODELOPT_LSQ;
                case THROUGH_SCALE, ZERO_POINT -> method == Method.DYNAMIC;
            };
        }
    }

    /** In words: {@code lsq int4 per channel}. */
    public String text() {
        String moved = variant == Variant.ZERO_POINT ? " with zero points" : "";
        return method.label() + " " + grid.text() + " " + granularity.text() + moved;
    }
}
