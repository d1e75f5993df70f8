package dev.octet.converter.hf;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.DType;
import java.util.List;
import java.util.OptionalInt;

/**
 * Keys and values of the tokens before those that a run of the graph is given: inputs {@code past_key_values}, to which attention appends its own, and
 * outputs {@code present} of all of them, F32 [batch, tokens, key heads·size] as attention reads them (k is rotated). An empty past gives
 * what the graph without a cache does.
 */
public final class KeyValueCache {
    /** Key in a graph's metadata, see {@link #limit}. */
    static final String LIMIT_KEY = "octet.generation.limit";

    private static final String PAST = "past_key_values.";
    private static final String PRESENT = "present.";

    private final GraphDraft draft;
    private final Tokens tokens;
    private int layers;

    KeyValueCache(GraphDraft draft, Tokens tokens) {
        this.draft = draft;
        this.tokens = tokens;
    }

    /**
     * The input that an output becomes in the next run.
     *
     * @param present name of an output that holds keys or values
     */
    public static String past(String present) {
        return PAST + present.substring(PRESENT.length());
    }

    /** Whether an output holds keys or values. */
    public static boolean isPresent(String output) {
        return output.startsWith(PRESENT);
    }

    /** Whether an input holds keys or values. */
    public static boolean isPast(String input) {
        return input.startsWith(PAST);
    }

    /**
     * Positions from which on keys are rotated by other angles, so that a cache that was made with fewer does not hold for more; empty where
     * there is no such number.
     */
    public static OptionalInt limit(GraphModel model) {
        String text = model.metadata().get(LIMIT_KEY);
        return text == null ? OptionalInt.empty() : OptionalInt.of(Integer.parseInt(text));
    }

    /** Keys and values of the next layer, the past ones first. */
    List<String> extended(String path, String k, String v, int keyWidth, int valueWidth) {
        int layer = layers++;
        return List.of(
                appended(path + "/Concat_key", layer + ".key", k, keyWidth),
                appended(path + "/Concat_value", layer + ".value", v, valueWidth));
    }

    private String appended(String path, String name, String x, int width) {
        Dim past = Dim.of("past");
        String before = draft.input(PAST + name, DType.F32, Tokens.BATCH, past, Dim.of(width));
        String all = draft.op(path, "Concat", List.of(before, x), Attribute.of("axis", 1));
        draft.output(PRESENT + name, all, Tokens.BATCH, Tokens.TOTAL, Dim.of(width));
        return all;
    }

    /** {@code mask} without the keys that are in front of a query. */
    String causal(String mask) {
        return draft.op("/causal/And", "And", List.of(mask, tokens.behind()));
    }
}
