package dev.octet.converter.compare;

/** How close two weights are, closest first. */
public enum Closeness {
    /** The same numbers, stored in the same number formats. */
    IDENTICAL("identical"),
    /** The same numbers in another form: other scales with the same products, a wider format, another sign of zero. */
    SAME_VALUES("same values"),
    /** No difference exceeds half a unit of the coarser grid (plus its slack): one rounding explains all. */
    WITHIN_ONE_ROUNDING("one rounding"),
    /** Further apart than one rounding explains, or a NaN or infinity on one side only. */
    BEYOND("beyond");

    private final String words;

    Closeness(String words) {
        this.words = words;
    }

    /** The name in reports, lower case. */
    public String words() {
        return words;
    }
}
