package dev.octet.converter.hf;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * What models of tokens have in common: the inputs {@code input_ids} and {@code attention_mask}, I64 [batch, sequence]; positions 0, 1, 2...
 * whatever the mask (transformers' default); masks of attention.
 */
final class Tokens {
    static final Dim BATCH = Dim.of("batch");
    static final Dim SEQUENCE = Dim.of("sequence");
    /** What a decoder behind an encoder is given. */
    static final Dim TARGET = Dim.of("target");
    /** The sequence and what a cache holds of the tokens before it. */
    static final Dim TOTAL = Dim.of("total");

    private static final String ROOT = "/positions";

    private final GraphDraft draft;
    private final String ids;
    private final @Nullable String mask;
    private final @Nullable String padding;
    private @Nullable String range;
    private @Nullable String length;
    private @Nullable String keys;
    private @Nullable String causal;
    private final Map<Long, String> windows = new HashMap<>();
    private final Map<Long, String> chunks = new HashMap<>();
    private final Map<String, String> behind = new HashMap<>();

    /** Adds the inputs. */
    Tokens(GraphDraft draft) {
        this.draft = draft;
        ids = draft.input("input_ids", DType.I64, BATCH, SEQUENCE);
        String given = draft.input("attention_mask", DType.I64, BATCH, draft.isCached() ? TOTAL : SEQUENCE);
        String bool = draft.op("/attention_mask/Cast", "Cast", List.of(given), Attribute.of("to", DType.BOOL.onnxId()));
        mask = given;
        padding = draft.op(
                "/attention_mask/Unsqueeze", "Unsqueeze", List.of(bool, draft.longs("axes_1_2", Shape.of(2), 1, 2)));
        draft.useCache(this);
    }

    private Tokens(GraphDraft draft, String ids) {
        this.draft = draft;
        this.ids = ids;
        mask = null;
        padding = null;
    }

    /** Those of a decoder behind an encoder: the input {@code decoder_input_ids}, I64 [batch, target], without a mask. */
    static Tokens targets(GraphDraft draft) {
        return new Tokens(draft, draft.input("decoder_input_ids", DType.I64, BATCH, TARGET));
    }

    String ids() {
        return ids;
    }

    /** The input that is 1 where there is no padding, I64 [batch, sequence]. */
    String mask() {
        return Objects.requireNonNull(mask);
    }

    /** Number of positions, of a cache too; I64 scalar. */
    String length() {
        if (length == null) {
            length = size("", draft.isCached() ? mask() : ids);
        }
        return length;
    }

    private String size(String what, String x) {
        String shape = draft.op(ROOT + "/Shape" + what, "Shape", List.of(x));
        return draft.op(
                ROOT + "/Gather" + what,
                "Gather",
                List.of(shape, draft.longs("one", Shape.of(), 1)),
                Attribute.of("axis", 0));
    }

    /** Positions of the sequence: 0 to sequence - 1, behind those of a cache; I64 [sequence]. */
    String positions() {
        if (range == null) {
            String end = length();
            String first = draft.isCached()
                    ? draft.op(ROOT + "/Sub", "Sub", List.of(end, size("_new", ids)))
                    : draft.longs("zero", Shape.of(), 0);
            range = range("", first, end);
        }
        return range;
    }

    /** Positions of keys: those of a cache and of the sequence; I64 [total]. */
    private String keyPositions() {
        if (!draft.isCached()) {
            return positions();
        }
        if (keys == null) {
            keys = range("_keys", draft.longs("zero", Shape.of(), 0), length());
        }
        return keys;
    }

    private String range(String what, String first, String end) {
        return draft.op(ROOT + "/Range" + what, "Range", List.of(first, end, draft.longs("one", Shape.of(), 1)));
    }

    /** Which row of a table of {@link #positions()} is whose, for each sample; I64 [batch, sequence]. */
    String rows() {
        String each =
                draft.isCached() ? range("_rows", draft.longs("zero", Shape.of(), 0), size("_rows", ids)) : positions();
        String row = draft.op(ROOT + "/Unsqueeze", "Unsqueeze", List.of(each, draft.longs("axes_0", Shape.of(1), 0)));
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
        return Objects.requireNonNull(padding);
    }

    /**
     * Keys that are not padding and less than {@code window} positions behind the query, BOOL [batch, 1, sequence, sequence]. Keys in front of
     * the query are left to the attention's causality.
     */
    String window(long window) {
        return windows.computeIfAbsent(window, w -> {
            String path = "/sliding_window";
            return draft.op(path + "/And", "And", List.of(padding(), behind(path, w)));
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
            return draft.op(path + "/And", "And", List.of(padding(), both));
        });
    }

    /**
     * Keys that are not padding and in the same chunk of {@code size} positions as the query, BOOL [batch, 1, sequence, sequence]; the first chunk of a
     * sample begins behind padding on its left. Keys in front of the query are left to the attention's causality.
     */
    String chunk(long size) {
        return chunks.computeIfAbsent(size, s -> {
            String path = "/chunks";
            String counts = draft.op(path + "/CumSum", "CumSum", List.of(mask(), draft.longs("one", Shape.of(), 1)));
            String leading = draft.op(path + "/Equal", "Equal", List.of(counts, draft.longs("zero", Shape.of(), 0)));
            String left = draft.op(
                    path + "/ReduceSum",
                    "ReduceSum",
                    List.of(number(path, leading), draft.longs("axes_1", Shape.of(1), 1)),
                    Attribute.of("keepdims", 1));
            String queries = chunks(path, positions(), left, size, 2);
            String all = chunks(path, keyPositions(), left, size, 1);
            String same = draft.op(path + "/Equal_chunk", "Equal", List.of(queries, all));
            String each = draft.op(
                    path + "/Unsqueeze_chunk", "Unsqueeze", List.of(same, draft.longs("axes_1", Shape.of(1), 1)));
            return draft.op(path + "/And", "And", List.of(padding(), each));
        });
    }

    /** Numbers of the chunks of positions: F32 [batch, positions] and an axis more. */
    private String chunks(String path, String positions, String left, long size, long axis) {
        String behind = draft.op(path + "/Sub", "Sub", List.of(number(path, positions), left));
        String share = draft.op(
                path + "/Div", "Div", List.of(behind, draft.floats("chunk_" + size, Shape.SCALAR, (float) size)));
        String chunk = draft.op(path + "/Floor", "Floor", List.of(share));
        return draft.op(
                path + "/Unsqueeze", "Unsqueeze", List.of(chunk, draft.longs("axes_" + axis, Shape.of(1), axis)));
    }

    /** As F32. */
    private String number(String path, String x) {
        return draft.op(path + "/Cast", "Cast", List.of(x), Attribute.of("to", DType.F32.onnxId()));
    }

    /** Positions as F32 numbers, [sequence]. */
    String numbers(String path) {
        return number(path, positions());
    }

    /** Keys that are not in front of the query, BOOL [sequence, total]. */
    String behind() {
        if (causal == null) {
            String path = "/causal";
            String queries = draft.op(
                    path + "/Unsqueeze", "Unsqueeze", List.of(positions(), draft.longs("axes_1", Shape.of(1), 1)));
            String all = draft.op(
                    path + "/Unsqueeze_keys",
                    "Unsqueeze",
                    List.of(keyPositions(), draft.longs("axes_0", Shape.of(1), 0)));
            causal = draft.op(path + "/LessOrEqual", "LessOrEqual", List.of(all, queries));
        }
        return causal;
    }

    /** Keys less than {@code window} positions behind the query, or in front of it, BOOL [sequence, sequence]. */
    private String behind(String path, long window) {
        String axis0 = draft.longs("axes_0", Shape.of(1), 0);
        String axis1 = draft.longs("axes_1", Shape.of(1), 1);
        String queries = draft.op(path + "/Unsqueeze", "Unsqueeze", List.of(positions(), axis1));
        String all = draft.op(path + "/Unsqueeze_keys", "Unsqueeze", List.of(keyPositions(), axis0));
        String size = draft.longs("window_" + window, Shape.of(), window);
        String first = draft.op(path + "/Sub", "Sub", List.of(queries, size));
        return draft.op(path + "/Greater", "Greater", List.of(all, first));
    }

    /**
     * Keys that a query sees behind a first one that it always sees, BOOL [batch, 1, sequence, 1 + sequence]: the first is no token.
     *
     * @param allowed of the tokens, from {@link #padding} or {@link #window}
     */
    String behindOne(String allowed) {
        return behind.computeIfAbsent(allowed, m -> {
            String path = "/sinks";
            String seen = draft.op(path + "/And", "And", List.of(m, behind()));
            // a column more, which is true: padded as numbers, for not all runtimes pad booleans
            String number = draft.op(path + "/Cast", "Cast", List.of(seen), Attribute.of("to", DType.F32.onnxId()));
            String padded = draft.op(
                    path + "/Pad",
                    "Pad",
                    List.of(
                            number,
                            draft.longs("pads_before", Shape.of(8), 0, 0, 0, 1, 0, 0, 0, 0),
                            draft.floats("pad_seen", Shape.SCALAR, 1)));
            return draft.op(path + "/Cast_back", "Cast", List.of(padded), Attribute.of("to", DType.BOOL.onnxId()));
        });
    }

    /** Numbers of tokens [batch, sequence], followed by more sizes: the shape of a value with elements for each token. */
    String shapeOf(long... more) {
        return shapeOf(ids, more);
    }

    /** The same for keys, of a cache too. */
    String shapeOfKeys(long... more) {
        return shapeOf(draft.isCached() ? mask() : ids, more);
    }

    private String shapeOf(String tokens, long... more) {
        String shape = draft.op(ROOT + "/Shape_tokens", "Shape", List.of(tokens));
        return draft.op(
                ROOT + "/Concat",
                "Concat",
                List.of(shape, draft.longs("sizes_" + Arrays.toString(more), Shape.of(more.length), more)),
                Attribute.of("axis", 0));
    }
}
