package dev.octet.converter.checkpoint;

/** What happens to the values of a tensor on the way into another checkpoint. */
public enum Exactness {
    /** Bytes or scales only change form: every value is the same. */
    EXACT,
    /** Every value is rounded at most once. */
    ONE_ROUNDING,
    /** Values that were rounded before are rounded to another grid: errors of both add up. */
    DOUBLE_ROUNDING;

    /** As reports show it: {@code one rounding}. */
    public String label() {
        return switch (this) {
            case EXACT -> "exact";
            case ONE_ROUNDING -> "one rounding";
            case DOUBLE_ROUNDING -> "double rounding";
        };
    }
}
