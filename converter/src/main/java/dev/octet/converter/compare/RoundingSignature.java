package dev.octet.converter.compare;

import org.jspecify.annotations.Nullable;

/**
 * What the errors of a pair say about how often its values were rounded. {@code beyondHalf} and {@code moved} are shares of the finite pairs.
 *
 * @param verdict what was found
 * @param side which side was rounded more than once: {@code a}, {@code b} or {@code either}; null for {@link Verdict#NONE}
 * @param beyondHalf share of elements whose error is more than half a unit of that side's grid, slack and saturated ones apart
 * @param moved share of elements whose error is more than a sixteenth of such a unit
 * @param maxUlp the largest error in such units, saturated elements left out
 * @param through the grid in between, where one was found
 * @param explained share of a sample that rounding through that grid gives exactly; NaN where none was looked for
 * @param direct share of the sample that rounding once gives exactly; NaN where none was looked for
 * @param evidence one sentence for people; empty for {@link Verdict#NONE}
 */
public record RoundingSignature(
        Verdict verdict,
        @Nullable String side,
        double beyondHalf,
        double moved,
        double maxUlp,
        @Nullable String through,
        double explained,
        double direct,
        String evidence) {
    /**
     * What the errors show. An honest single rounding to a grid never ends more than half a unit from where it started, whatever the values;
     * its errors are at most {@link NumberGrid#slack} beyond.
     */
    public enum Verdict {
        /** Nothing beyond a single rounding. */
        NONE,
        /**
         * The values of one side are the other side's, rounded once more: that other side already lies on a grid of few values (it is
         * quantised, or {@link FewMagnitudes} finds it so), at least 1 % of the elements moved, and at most 0.1 % of them by more than
         * half a unit and a sixteenth. Two independent roundings of one original differ by more than that in many elements.
         */
        ROUNDED_AGAIN,
        /**
         * One side is in a wide float format, more than 0.1 % of the elements are more than half a unit away on the other, and rounding
         * through a known grid in between (see {@link Intermediates}) gives at least 99.9 % of a sample exactly.
         */
        THROUGH_ANOTHER_GRID,
        /**
         * As {@link #THROUGH_ANOTHER_GRID}, but no known grid explains it: one that is not in the list, compensated (GPTQ) or stochastic
         * rounding, or weights that were changed otherwise.
         */
        UNEXPLAINED
    }

    static final RoundingSignature NONE =
            new RoundingSignature(Verdict.NONE, null, 0, 0, 0, null, Double.NaN, Double.NaN, "");

    /** Whether a second rounding is shown. */
    public boolean isDouble() {
        return verdict == Verdict.ROUNDED_AGAIN || verdict == Verdict.THROUGH_ANOTHER_GRID;
    }
}
