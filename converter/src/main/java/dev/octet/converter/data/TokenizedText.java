package dev.octet.converter.data;

/** One text as tokens; all arrays have the same length. */
final class TokenizedText {
    private final long[] ids;
    private final long[] mask;
    private final long[] types;

    TokenizedText(long[] ids, long[] mask, long[] types) {
        this.ids = ids;
        this.mask = mask;
        this.types = types;
    }

    /** Ids of tokens. */
    long[] ids() {
        return ids;
    }

    /** 1 for tokens of the text, 0 for padding. */
    long[] mask() {
        return mask;
    }

    /** 0 for a first sequence, 1 for a second. */
    long[] types() {
        return types;
    }
}
