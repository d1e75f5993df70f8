package dev.octet.converter.compare;

import java.util.List;
import java.util.Map;

/**
 * The result of comparing two models.
 *
 * @param a path of the first
 * @param b path of the second
 * @param formatA format of the first
 * @param formatB format of the second
 * @param summary totals over all tensors
 * @param tensors every pair, worst first: by closeness, then NaN and infinity on one side, then SQNR, then name
 * @param uncomparable tensors with a counterpart that could not be compared, and tensors that mean no numbers by themselves
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
     * Totals over all pairs.
     *
     * @param pairs number of pairs compared
     * @param elements elements compared
     * @param differing elements whose numbers differ
     * @param byCloseness number of pairs of each closeness
     * @param cosine over all elements as one vector
     * @param sqnrDb over all elements, dB
     * @param cosineMin smallest cosine of a tensor; NaN when one is NaN or none was compared
     * @param sqnrDbMin smallest SQNR of a tensor, dB; NaN as for the cosine
     * @param maxUlpError largest error of a tensor, in units in the last place
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
     * A pair of tensors that cannot be compared, or a single tensor without meaning.
     *
     * @param a name in the first model; empty when it is only in the second
     * @param b name in the second model; empty when it is only in the first
     * @param reason why, for example {@code "F8_E4M3FN codes without a scale"}
     */
    public record Uncomparable(String a, String b, String reason) {}

    /** Whether both models have the same weights, with the same numbers in the same form. */
    public boolean identical() {
        return sameValues() && summary.byCloseness().getOrDefault(Closeness.SAME_VALUES, 0) == 0;
    }

    /** Whether both models have the same weights, with the same numbers in any form. */
    public boolean sameValues() {
        return uncomparable.isEmpty()
                && onlyA.isEmpty()
                && onlyB.isEmpty()
                && summary.byCloseness().getOrDefault(Closeness.WITHIN_ONE_ROUNDING, 0) == 0
                && summary.byCloseness().getOrDefault(Closeness.BEYOND, 0) == 0;
    }
}
