package dev.octet.converter.checkpoint;

/** How a conversion changes the values of a tensor. */
public enum Exactness {
    /** Only the form of bytes or scales changes: every value stays the same. */
    EXACT,
    /** Every value is rounded at most once. */
    ONE_ROUNDING,
    /** Values that were rounded before are rounded to another grid: both errors add up. */
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
