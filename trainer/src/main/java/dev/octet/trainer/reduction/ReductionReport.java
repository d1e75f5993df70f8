package dev.octet.trainer.reduction;

/**
 * How well the averaged gradients of a step fitted E4M3.
 *
 * @param saturated codes of all averages that stand for ±448
 * @param elements of all tensors averaged in E4M3
 * @param worst the tensor with the largest share of saturated codes; empty when none has any
 * @param worstShare its share
 * @param smallestPreScale smallest of the tensors' next pre-scales (µ)
 * @param largestPreScale largest of them
 */
public record ReductionReport(
        long saturated, long elements, String worst, double worstShare, float smallestPreScale, float largestPreScale) {
    /** That of these tensors and of others. */
    public ReductionReport and(ReductionReport others) {
        boolean worse = others.worstShare > worstShare;
        return new ReductionReport(
                saturated + others.saturated,
                elements + others.elements,
                worse ? others.worst : worst,
                worse ? others.worstShare : worstShare,
                Math.min(smallestPreScale, others.smallestPreScale),
                Math.max(largestPreScale, others.largestPreScale));
    }

    /** Share of saturated codes. */
    public double saturatedShare() {
        return elements == 0 ? 0 : (double) saturated / elements;
    }
}
