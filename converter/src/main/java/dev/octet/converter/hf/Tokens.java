package dev.octet.converter.hf;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What models of tokens have in common: the inputs {@code input_ids} and {@code attention_mask}, I64 [batch, sequence]; positions 0, 1, 2...
 * whatever the mask (transformers' default); masks of attention.
 */
final class Tokens {
    static final Dim BATCH = Dim.of("batch");
    static final Dim SEQUENCE = Dim.of("sequence");

    private static final String ROOT = "/positions";

    private final GraphDraft draft;
    private final String ids;
    private final String mask;
    private final String padding;
    private @Nullable String range;
    private @Nullable String length;
    private final Map<Long, String> windows = new HashMap<>();

    /** Adds the inputs. */
    Tokens(GraphDraft draft) {
        this.draft = draft;
        ids = draft.input("input_ids", DType.I64, BATCH, SEQUENCE);
        mask = draft.input("attention_mask", DType.I64, BATCH, SEQUENCE);
        String bool = draft.op("/attention_mask/Cast", "Cast", List.of(mask), Attribute.of("to", DType.BOOL.onnxId()));
        padding = draft.op(
                "/attention_mask/Unsqueeze", "Unsqueeze", List.of(bool, draft.longs("axes_1_2", Shape.of(2), 1, 2)));
    }

    String ids() {
        return ids;
    }

    /** The input that is 1 where there is no padding, I64 [batch, sequence]. */
    String mask() {
        return mask;
    }

    /** Number of positions, I64 scalar. */
    String length() {
        if (length == null) {
            String shape = draft.op(ROOT + "/Shape", "Shape", List.of(ids));
            length = draft.op(
                    ROOT + "/Gather",
                    "Gather",
                    List.of(shape, draft.longs("one", Shape.of(), 1)),
                    Attribute.of("axis", 0));
        }
        return length;
    }

    /** Positions 0 to sequence - 1, I64 [sequence]. */
    String positions() {
        if (range == null) {
            String end = length();
            range = draft.op(
                    ROOT + "/Range",
                    "Range",
                    List.of(draft.longs("zero", Shape.of(), 0), end, draft.longs("one", Shape.of(), 1)));
        }
        return range;
    }

    /** Positions for each sample, I64 [batch, sequence]. */
    String positionIds() {
        String row =
                draft.op(ROOT + "/Unsqueeze", "Unsqueeze", List.of(positions(), draft.longs("axes_0", Shape.of(1), 0)));
        return draft.op(ROOT + "/Expand", "Expand", List.of(row, draft.op(ROOT + "/Shape_ids", "Shape", List.of(ids))));
    }

    /**
     * Positions that count the tokens that are no padding, from {@code padding + 1} on; those of padding are {@code padding}. I64 [batch,
     * sequence].
     */
    String countedPositions(long padding) {
        String number = draft.longs("padding", Shape.of(), padding);
        String filled = draft.op(ROOT + "/Equal", "Equal", List.of(ids, number));
        String real = draft.op(ROOT + "/Not", "Not", List.of(filled));
        String ones = draft.op(ROOT + "/Cast", "Cast", List.of(real), Attribute.of("to", DType.I64.onnxId()));
        String counts = draft.op(ROOT + "/CumSum", "CumSum", List.of(ones, draft.longs("one", Shape.of(), 1)));
        return draft.add(ROOT, draft.op(ROOT + "/Mul", "Mul", List.of(counts, ones)), number);
    }

    /** Keys that are not padding, BOOL [batch, 1, 1, sequence]. */
    String padding() {
        return padding;
    }

    /**
     * Keys that are not padding and less than {@code window} positions behind the query, BOOL [batch, 1, sequence, sequence]. Keys in front of
     * the query are left to the attention's causality.
     */
    String window(long window) {
        return windows.computeIfAbsent(window, w -> {
            String path = "/sliding_window";
            String near = behind(path, w);
            return draft.op(path + "/And", "And", List.of(padding, near));
        });
    }

    /**
     * Keys that are not padding and at most {@code distance} positions behind or in front of the query, BOOL [batch, 1, sequence, sequence].
     */
    String around(long distance) {
        return windows.computeIfAbsent(-distance, d -> {
            String path = "/local_attention";
            String near = behind(path, distance + 1);
            String other = draft.op(path + "/Transpose", "Transpose", List.of(near));
            String both = draft.op(path + "/And_both", "And", List.of(near, other));
            return draft.op(path + "/And", "And", List.of(padding, both));
        });
    }

    /** Keys less than {@code window} positions behind the query, or in front of it, BOOL [sequence, sequence]. */
    private String behind(String path, long window) {
        String axis0 = draft.longs("axes_0", Shape.of(1), 0);
        String axis1 = draft.longs("axes_1", Shape.of(1), 1);
        String queries = draft.op(path + "/Unsqueeze", "Unsqueeze", List.of(positions(), axis1));
        String keys = draft.op(path + "/Unsqueeze_keys", "Unsqueeze", List.of(positions(), axis0));
        String size = draft.longs("window_" + window, Shape.of(), window);
        String first = draft.op(path + "/Sub", "Sub", List.of(queries, size));
        return draft.op(path + "/Greater", "Greater", List.of(keys, first));
    }
}
