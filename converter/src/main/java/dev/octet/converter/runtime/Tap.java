package dev.octet.converter.runtime;

/**
 * A value whose statistics are wanted, and what they are called.
 *
 * @param name in the statistics; several taps may look at one value
 * @param value name of a value of the graph
 * @param rows how its tokens lie in memory
 */
public record Tap(String name, String value, Rows rows) {
    /** How the tokens of a value lie, for leaving out padding. */
    public enum Rows {
        /** As the attention mask's shape says: [batch, length, ...] or [batch * length, ...]; otherwise each sample is one row. */
        OF_TOKENS,
        /** Of rank 4 as keys and values do before attention, [batch, heads, length, size]; otherwise as {@link #OF_TOKENS}. */
        OF_HEADS
    }

    /** A value under its own name. */
    public static Tap of(String value) {
        return new Tap(value, value, Rows.OF_TOKENS);
    }
}
