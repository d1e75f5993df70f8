package dev.octet.trainer.hook;

import java.util.Comparator;
import java.util.List;

/**
 * How well the tensors that a step cast to FP8 fitted their codes.
 *
 * @param tensors in the order in which the step cast them
 * @param warnings problems that the previous measurement did not have
 */
public record Fp8Report(long step, List<Fp8Tensor> tensors, List<Fp8Warning> warnings) {
    private static final Comparator<Fp8Tensor> WORST_FIRST = Comparator.comparingDouble(Fp8Tensor::clippedShare)
            .thenComparingDouble(Fp8Tensor::underflowedShare)
            .thenComparingLong(Fp8Tensor::scaleAge)
            .reversed();

    public Fp8Report {
        tensors = List.copyOf(tensors);
        warnings = List.copyOf(warnings);
    }

    /** Share of clipped elements over all tensors. */
    public double clippedShare() {
        return (double) tensors.stream().mapToLong(Fp8Tensor::clipped).sum() / Math.max(1, elements());
    }

    /** Share of underflowed elements over all tensors. */
    public double underflowedShare() {
        return (double) tensors.stream().mapToLong(Fp8Tensor::underflowed).sum() / Math.max(1, elements());
    }

    private long elements() {
        return tensors.stream().mapToLong(Fp8Tensor::elements).sum();
    }

    /** Age in steps of the scale unchanged for longest; 0 when scales are computed from the tensors themselves. */
    public long oldestScale() {
        return tensors.stream().mapToLong(Fp8Tensor::scaleAge).max().orElse(0);
    }

    /** The tensors with the largest loss: by clipped share, then underflowed share, then age of the scale. */
    public List<Fp8Tensor> worst(int atMost) {
        return tensors.stream().sorted(WORST_FIRST).limit(atMost).toList();
    }
}
