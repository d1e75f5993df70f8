package dev.octet.trainer.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Feeds transformers from rows of tokens: {@code input_ids}, {@code attention_mask} (1 for real tokens), {@code position_ids} and
 * {@code token_type_ids} (all 0), as far as the graph has them, and labels: the tokens themselves, with the ignored label at padding.
 */
final class TokenRows {
    private static final String FEEDS = "input_ids, attention_mask, position_ids, token_type_ids";

    private final Feed feed;
    private final String file;
    private final String fed;

    /**
     * @param fed source of the tokens, for messages
     * @throws InvalidDataException when the graph has an input that tokens cannot feed
     */
    TokenRows(Feed feed, String file, String fed) {
        this.feed = feed;
        this.file = file;
        this.fed = fed;
        for (ValueInfo input : feed.inputs()) {
            switch (input.name()) {
                case "input_ids", "attention_mask", "position_ids", "token_type_ids" ->
                    Feed.tokenType(input, file, fed);
                default ->
                    throw new InvalidDataException(
                            "the model has input '" + input.name() + "', which " + fed + " cannot feed (they feed "
                                    + FEEDS + ")",
                            file,
                            "give the data as .npz with one array per input");
            }
        }
    }

    /** Tensors [rows, length] of rows with at most {@code length} tokens. */
    Map<String, Tensor> tensors(long[][] tokens, int length, Arena arena) {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        for (ValueInfo input : feed.inputs()) {
            DType dtype = Feed.tokenType(input, file, fed);
            tensors.put(input.name(), tensor(input.name(), dtype, tokens, length, arena));
        }
        feed.labels().ifPresent(l -> tensors.put(l, labels(l, tokens, length, arena)));
        return tensors;
    }

    private static Tensor tensor(String name, DType dtype, long[][] tokens, int length, Arena arena) {
        Tensor t = Tensor.allocate(arena, new TensorSpec(name, dtype, Shape.of(tokens.length, length)));
        for (int row = 0; row < tokens.length; row++) {
            for (int i = 0; i < length; i++) {
                boolean real = i < tokens[row].length;
                long value = switch (name) {
                    case "input_ids" -> real ? tokens[row][i] : 0;
                    case "attention_mask" -> real ? 1 : 0;
                    case "position_ids" -> i;
                    default -> 0;
                };
                set(t, (long) row * length + i, value);
            }
        }
        return t;
    }

    private Tensor labels(String name, long[][] tokens, int length, Arena arena) {
        Tensor t = Tensor.allocate(arena, new TensorSpec(name, DType.I64, Shape.of(tokens.length, length)));
        for (int row = 0; row < tokens.length; row++) {
            for (int i = 0; i < length; i++) {
                set(t, (long) row * length + i, i < tokens[row].length ? tokens[row][i] : feed.ignoreIndex());
            }
        }
        return t;
    }

    private static void set(Tensor t, long i, long value) {
        if (t.dtype() == DType.I32) {
            t.bytes().set(Tensor.I32_LE, i * Integer.BYTES, Math.toIntExact(value));
        } else {
            t.bytes().set(Tensor.I64_LE, i * Long.BYTES, value);
        }
    }
}
