package dev.octet.converter.data;

/**
 * Options of the conversion of text to tokens.
 *
 * @param maxLength longer texts are cut to this many tokens, including special tokens; at least 2
 */
public record TextOptions(int maxLength) {
    /** 256 tokens: enough for a paragraph, and the usual length for sentence embedding models. */
    public static TextOptions defaults() {
        return new TextOptions(256);
    }

    public TextOptions {
        if (maxLength < 2) {
            throw new IllegalArgumentException("maxLength is " + maxLength);
        }
    }

    /** The same with another limit. */
    public TextOptions withMaxLength(int tokens) {
        return new TextOptions(tokens);
    }
}
