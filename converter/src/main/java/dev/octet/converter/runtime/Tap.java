package dev.octet.converter.runtime;

import dev.octet.converter.rule.AttentionNode;
import dev.octet.quant.layout.AttentionInput;

/**
 * A value to take statistics of, and their name.
 *
 * @param name in the statistics; several taps may share a value
 * @param value name of a value of the graph
 * @param rows layout of its tokens
 * @param channels length of its last axis, where statistics of each channel and second moments are to be taken; 0 for none
 * @param joinedHeads heads that lie side by side along its last axis, where statistics of each are to be taken; 0 where the value has an axis of
 *     heads, or none
 */
public record Tap(String name, String value, Rows rows, int channels, int joinedHeads) {
    private static final char CALL = '#';

    /** The same for another call of the module: its statistics are added to those of the first. */
    Tap ofCall(int number) {
        return new Tap(name + CALL + number, value, rows, channels, joinedHeads);
    }

    /** The name that complete statistics have, the same for all calls of a module. */
    public String module() {
        int end = name.lastIndexOf(CALL);
        return isRepeated() ? name.substring(0, end) : name;
    }

    /** Whether it is another call of a module than the first. */
    boolean isRepeated() {
        int end = name.lastIndexOf(CALL);
        return end > 0 && name.substring(end + 1).matches("\\d+");
    }

    /** The input of a Linear with so many input channels. */
    public static Tap ofLinear(String name, String value, int channels) {
        return new Tap(name, value, Rows.OF_TOKENS, channels, 0);
    }

    /** A query, key or value with an axis of heads, with statistics of each head. */
    public static Tap ofHeads(String name, String value) {
        return new Tap(name, value, Rows.OF_HEADS, 0, 0);
    }

    /** The queries, keys or values of an Attention node, with statistics of each head. */
    static Tap ofAttention(String name, AttentionNode attention, AttentionInput input) {
        return new Tap(name, attention.value(input), Rows.OF_HEADS, 0, attention.joinedHeads(input));
    }

    /** The layout of a value's tokens, for excluding padding. */
    public enum Rows {
        /** [batch, length, ...] or [batch * length, ...] by the attention mask's shape; otherwise each sample is one row. */
        OF_TOKENS,
        /** [batch, heads, length, size], as keys and values before attention; for other ranks as {@link #OF_TOKENS}. */
        OF_HEADS
    }

    /** A tap with the name of its value. */
    public static Tap of(String value) {
        return new Tap(value, value, Rows.OF_TOKENS, 0, 0);
    }
}
