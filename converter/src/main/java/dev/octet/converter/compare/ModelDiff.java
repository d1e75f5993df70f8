package dev.octet.converter.compare;

import java.util.List;
import java.util.Map;

/**
 * Two models side by side.
 *
 * @param a path of the first
 * @param b path of the second
 * @param formatA what the first is
 * @param formatB what the second is
 * @param summary all tensors together
 * @param tensors every pair, worst first: by closeness, then NaN and infinity on one side, then SQNR, then name
 * @param uncomparable tensors with a counterpart that could not be compared, and those without meaning of their own
 * @param onlyA names of weights without counterpart in the second model
 * @param onlyB names of weights without counterpart in the first model
 * @param notes sentences about the models
 */
public record ModelDiff(
        String a,
        String b,
        String formatA,
        String formatB,
        Summary summary,
        List<TensorDiff> tensors,
        List<Uncomparable> uncomparable,
        List<String> onlyA,
        List<String> onlyB,
        List<String> notes) {
    public ModelDiff {
        tensors = List.copyOf(tensors);
        uncomparable = List.copyOf(uncomparable);
        onlyA = List.copyOf(onlyA);
        onlyB = List.copyOf(onlyB);
        notes = List.copyOf(notes);
    }

    /**
     * All pairs together.
     *
     * @param pairs number of pairs compared
     * @param elements elements compared
     * @param differing elements that are different numbers
     * @param byCloseness number of pairs of each closeness
     * @param cosine over all elements as one vector
     * @param sqnrDb over all elements, dB
     * @param cosineMin smallest of a tensor; NaN when one is not a number or none was compared
     * @param sqnrDbMin smallest of a tensor, dB; NaN as for the cosine
     * @param maxUlpError largest of a tensor
     * @param roundedTwice pairs whose errors show a second rounding
     * @param matched share of the first model's weights that were compared, 0..1
     */
    public record Summary(
            int pairs,
            long elements,
            long differing,
            Map<Closeness, Integer> byCloseness,
            double cosine,
            double sqnrDb,
            double cosineMin,
            double sqnrDbMin,
            double maxUlpError,
            int roundedTwice,
            double matched) {}

    /**
     * Tensors that say nothing about each other.
     *
     * @param a name in the first model; empty when it is only in the second
     * @param b name in the second model; empty when it is only in the first
     * @param reason why, as {@code "F8_E4M3FN codes without a scale"}
     */
    public record Uncomparable(String a, String b, String reason) {}

    /** Whether every weight of each model is in the other, with the same numbers in the same form. */
    public boolean identical() {
        return sameValues() && summary.byCloseness().getOrDefault(Closeness.SAME_VALUES, 0) == 0;
    }

    /** Whether every weight of each model is in the other, with the same numbers in whatever form. */
    public boolean sameValues() {
        return uncomparable.isEmpty()
                && onlyA.isEmpty()
                && onlyB.isEmpty()
                && summary.byCloseness().getOrDefault(Closeness.WITHIN_ONE_ROUNDING, 0) == 0
                && summary.byCloseness().getOrDefault(Closeness.BEYOND, 0) == 0;
    }
}
