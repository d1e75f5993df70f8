package dev.octet.trainer.hook;

import java.util.Comparator;
import java.util.List;

/**
 * How the tensors that a step cast to FP8 fitted their codes.
 *
 * @param tensors in the order in which the step cast them
 * @param warnings what is wrong now and was not wrong the last time
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

    /** Share of all elements that were clipped. */
    public double clippedShare() {
        return (double) tensors.stream().mapToLong(Fp8Tensor::clipped).sum() / Math.max(1, elements());
    }

    /** Share of all elements that underflowed. */
    public double underflowedShare() {
        return (double) tensors.stream().mapToLong(Fp8Tensor::underflowed).sum() / Math.max(1, elements());
    }

    private long elements() {
        return tensors.stream().mapToLong(Fp8Tensor::elements).sum();
    }

    /** Steps since the scale changed that has stayed the longest; 0 when scales are made from the tensors themselves. */
    public long oldestScale() {
        return tensors.stream().mapToLong(Fp8Tensor::scaleAge).max().orElse(0);
    }

    /** The tensors that lost most: by what was clipped, then by what underflowed; of equals the one with the oldest scale. */
    public List<Fp8Tensor> worst(int atMost) {
        return tensors.stream().sorted(WORST_FIRST).limit(atMost).toList();
    }
}
