package dev.octet.converter.runtime;

/**
 * A value to take statistics of, and their name.
 *
 * @param name in the statistics; several taps may share a value
 * @param value name of a value of the graph
 * @param rows layout of its tokens
 * @param channels length of its last axis, where statistics of each channel and second moments are to be taken; 0 for none
 */
public record Tap(String name, String value, Rows rows, int channels) {
    /** The input of a Linear with so many input channels. */
    public static Tap ofLinear(String name, String value, int channels) {
        return new Tap(name, value, Rows.OF_TOKENS, channels);
    }

    /** A query, key or value, with statistics of each head. */
    public static Tap ofHeads(String name, String value) {
        return new Tap(name, value, Rows.OF_HEADS, 0);
    }
    /** The layout of a value's tokens, for excluding padding. */
    public enum Rows {
        /** [batch, length, ...] or [batch * length, ...] by the attention mask's shape; otherwise each sample is one row. */
        OF_TOKENS,
        /** [batch, heads, length, size], as keys and values before attention; for ranks other than 4 as {@link #OF_TOKENS}. */
        OF_HEADS
    }

    /** A tap with the name of its value. */
    public static Tap of(String value) {
        return new Tap(value, value, Rows.OF_TOKENS, 0);
    }
}
