package dev.octet.trainer.reduction;

import dev.octet.quant.scale.MsampScale;

/**
 * How the gradients of some ranks are averaged.
 *
 * @param reduction which scale the ranks agree on
 * @param scale from amax to scale. With its quirks, as MS-AMP has them: an infinity saturates; a rank of zeros takes part in the smallest scale with the one
 *     it had before; and the scale kept for tensors of zeros shrinks by {@code 1 / √N} each time. Without: an infinity becomes NaN, so
 *     that it survives the sum; a rank of zeros has no say; the scale is kept without the pre-scale
 * @param ranks at least 1
 */
public record ReductionRule(GradientReduction reduction, MsampScale scale, int ranks) {
    public ReductionRule {
        if (ranks < 1) {
            throw new IllegalArgumentException(ranks + " ranks");
        }
    }

    /** MS-AMP's scales without their oddities. */
    public static ReductionRule of(GradientReduction reduction, int ranks) {
        return new ReductionRule(reduction, MsampScale.MENDED, ranks);
    }

    /** What each scale is multiplied by where µ is not automatic. */
    public float preScale() {
        return reduction.preScale(ranks);
    }
}
