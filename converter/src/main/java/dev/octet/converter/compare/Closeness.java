package dev.octet.converter.compare;

/** How near two weights are, nearest first. */
public enum Closeness {
    /** The same numbers, stored in the same number formats. */
    IDENTICAL("identical"),
    /** The same numbers, stored in another form: other scales for the same products, a wider format, another zero. */
    SAME_VALUES("same values"),
    /** No element further apart than half a unit of the coarser grid (and its slack): one rounding explains all. */
    WITHIN_ONE_ROUNDING("one rounding"),
    /** Further apart than one rounding explains, or a NaN or infinity on one side only. */
    BEYOND("beyond");

    private final String words;

    Closeness(String words) {
        this.words = words;
    }

    /** For people, lower case. */
    public String words() {
        return words;
    }
}
