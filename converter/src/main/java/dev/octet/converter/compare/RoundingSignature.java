package dev.octet.converter.compare;

import java.io.Serializable;
import org.jspecify.annotations.Nullable;

/**
 * How often the values of a pair were rounded, judged by their errors. {@code beyondHalf} and {@code moved} are shares of the finite pairs.
 *
 * @param verdict the finding
 * @param side the side that was rounded more than once: {@code a}, {@code b} or {@code either}; null for {@link Verdict#NONE}
 * @param beyondHalf share of elements whose error exceeds half a unit of that side's grid plus slack, without saturated elements
 * @param moved share of elements whose error exceeds a sixteenth of such a unit
 * @param maxUlp the largest error in such units, without saturated elements
 * @param through the intermediate grid, if one was found
 * @param explained share of a sample that rounding through that grid reproduces exactly; NaN without a search
 * @param direct share of the sample that rounding once reproduces exactly; NaN without a search
 * @param evidence one sentence for the user; empty for {@link Verdict#NONE} and {@link Verdict#COMPENSATED}
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
        String evidence)
        implements Serializable {
    /**
     * The finding. A single correct rounding to a grid never moves a value by more than half a unit plus {@link NumberGrid#slack}.
     */
    public enum Verdict {
        /** Nothing beyond a single rounding. */
        NONE,
        /**
         * One side holds the values of the other, rounded once more: the other side already lies on a grid of few values (it is quantised,
         * or {@link FewMagnitudes} finds that it was), at least 1 % of the elements moved, and at most 0.1 % of them by more than half a
         * unit plus a sixteenth. Two independent roundings of one original differ by more than that in many elements.
         */
        ROUNDED_AGAIN,
        /**
         * One side has a wide float format, more than 0.1 % of the elements of the other are more than half a unit away, and rounding
         * through a known intermediate grid (see {@link Intermediates}) reproduces at least 99.9 % of a sample exactly.
         */
        THROUGH_ANOTHER_GRID,
        /**
         * As {@link #THROUGH_ANOTHER_GRID}, but no known grid explains the errors: the cause is an unlisted grid, compensated (GPTQ) or
         * stochastic rounding, or another change of the weights.
         */
        UNEXPLAINED,
        /** As {@link #UNEXPLAINED}, on a side whose file says that its weights were rounded with compensation (GPTQ). */
        COMPENSATED
    }

    static final RoundingSignature NONE =
            new RoundingSignature(Verdict.NONE, null, 0, 0, 0, null, Double.NaN, Double.NaN, "");

    /** Whether the file of one side says that its weights were rounded with compensation, and the errors fit. */
    public boolean isCompensated() {
        return verdict == Verdict.COMPENSATED;
    }

    /** Whether the errors show a second rounding. */
    public boolean isDouble() {
        return verdict == Verdict.ROUNDED_AGAIN || verdict == Verdict.THROUGH_ANOTHER_GRID;
    }
}
