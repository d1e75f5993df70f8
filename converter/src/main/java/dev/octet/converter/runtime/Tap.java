package dev.octet.converter.runtime;

/**
 * A value to take statistics of, and their name.
 *
 * @param name in the statistics; several taps may share a value
 * @param value name of a value of the graph
 * @param rows layout of its tokens
 */
public record Tap(String name, String value, Rows rows) {
    /** The layout of a value's tokens, for excluding padding. */
    public enum Rows {
        /** [batch, length, ...] or [batch * length, ...] by the attention mask's shape; otherwise each sample is one row. */
        OF_TOKENS,
        /** [batch, heads, length, size], as keys and values before attention; for ranks other than 4 as {@link #OF_TOKENS}. */
        OF_HEADS
    }

    /** A tap with the name of its value. */
    public static Tap of(String value) {
        return new Tap(value, value, Rows.OF_TOKENS);
    }
}
