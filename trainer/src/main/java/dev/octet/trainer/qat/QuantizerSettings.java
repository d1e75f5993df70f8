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
 */
public record QuantizerSettings(Method method, CodeGrid grid, Granularity granularity, QuantizeNode.Count count) {
    /** In words: {@code lsq int4 per channel}. */
    public String text() {
        return method.label() + " " + grid.text() + " " + granularity.text();
    }
}
