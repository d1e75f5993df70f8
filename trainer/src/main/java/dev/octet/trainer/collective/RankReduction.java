package dev.octet.trainer.collective;

/**
 * What becomes of the numbers of all ranks. Ranks are taken in their order, {@code ((x0 + x1) + x2) + ...}, whichever engine moves the bytes: a result depends
 * on the number of ranks, not on the machine, the library or its mood, and is the same on every rank.
 *
 * @param kind sum, average, largest or smallest
 * @param rounding where sums and averages are rounded; the others are exact
 */
public record RankReduction(Kind kind, SumRounding rounding) {
    /** The largest number; NaN if one is. */
    public static final RankReduction MAX = new RankReduction(Kind.MAX, SumRounding.ONCE);

    /** The smallest number; NaN if one is. */
    public static final RankReduction MIN = new RankReduction(Kind.MIN, SumRounding.ONCE);

    /** The sum, rounded once. */
    public static final RankReduction SUM = new RankReduction(Kind.SUM, SumRounding.ONCE);

    /** The average, rounded once: each number times {@code 1 / N} in F32, then added, as torch's DistributedDataParallel does. */
    public static final RankReduction AVERAGE = new RankReduction(Kind.AVERAGE, SumRounding.ONCE);

    /** What is computed. */
    public enum Kind {
        /** All added. */
        SUM,
        /** Each times {@code 1 / N}, in F32, then added. */
        AVERAGE,
        /** The largest. */
        MAX,
        /** The smallest. */
        MIN
    }

    /** The same, rounded elsewhere. */
    public RankReduction rounding(SumRounding other) {
        return new RankReduction(kind, other);
    }
}
