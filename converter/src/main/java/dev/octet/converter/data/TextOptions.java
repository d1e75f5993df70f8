package dev.octet.converter.data;

/**
 * How text becomes tokens.
 *
 * @param maxLength longer texts are cut to this many tokens, special ones counted; at least 2
 */
public record TextOptions(int maxLength) {
    /** 256 tokens: enough for a paragraph, and what sentence embedding models are used with. */
    public static final TextOptions DEFAULT = new TextOptions(256);

    public TextOptions {
        if (maxLength < 2) {
            throw new IllegalArgumentException("maxLength is " + maxLength);
        }
    }
}
