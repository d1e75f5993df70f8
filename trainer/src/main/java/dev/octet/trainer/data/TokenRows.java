package dev.octet.trainer.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

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

    /** Tensors [rows, length] of rows with at most {@code length} tokens, which are all labels. */
    Map<String, Tensor> tensors(long[][] tokens, int length, Arena arena) {
        return tensors(tokens, tokens, length, arena);
    }

    /** Label of positions that do not count. */
    long ignored() {
        return feed.ignoreIndex();
    }

    /**
     * Labels of a sequence: its tokens, or the ignored label where they do not count.
     *
     * @param counted which count; empty for all
     */
    long[] labels(long[] tokens, Optional<boolean[]> counted) {
        long[] labels = tokens.clone();
        for (int i = 0; counted.isPresent() && i < labels.length; i++) {
            labels[i] = counted.get()[i] ? labels[i] : feed.ignoreIndex();
        }
        return labels;
    }

    /** The same with labels of their own, as many as tokens. */
    Map<String, Tensor> tensors(long[][] tokens, long[][] labels, int length, Arena arena) {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        for (ValueInfo input : feed.inputs()) {
            DType dtype = Feed.tokenType(input, file, fed);
            tensors.put(input.name(), tensor(input.name(), dtype, tokens, length, arena));
        }
        feed.labels().ifPresent(l -> tensors.put(l, labels(l, labels, length, arena)));
        return tensors;
    }

    /**
     * Tensors [rows, length] of texts side by side that do not see each other: {@code attention_mask} numbers the texts of a row from 1, 0 for
     * padding, {@code position_ids} start anew with each, and its first token, which nothing before it predicts, is no label. A graph without
     * {@code position_ids} takes the mask as 0 and 1.
     *
     * @param samples texts of each row; a token that does not count is its complement
     */
    Map<String, Tensor> documents(List<List<int[]>> samples, int length, Arena arena) {
        long[][] tokens = new long[samples.size()][length];
        long[][] labels = new long[samples.size()][length];
        long[][] numbers = new long[samples.size()][length];
        long[][] positions = new long[samples.size()][length];
        boolean numbered = feed.inputs().stream().anyMatch(i -> i.name().equals(Feed.POSITIONS));
        for (int row = 0; row < tokens.length; row++) {
            Arrays.fill(labels[row], feed.ignoreIndex());
            int at = 0;
            for (int text = 0; text < samples.get(row).size(); text++) {
                int[] ids = samples.get(row).get(text);
                for (int i = 0; i < ids.length; i++, at++) {
                    tokens[row][at] = ids[i] < 0 ? ~ids[i] : ids[i];
                    labels[row][at] = ids[i] < 0 || i == 0 ? feed.ignoreIndex() : ids[i];
                    numbers[row][at] = numbered ? text + 1 : 1;
                    positions[row][at] = i;
                }
            }
        }
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        for (ValueInfo input : feed.inputs()) {
            long[][] values = switch (input.name()) {
                case Feed.TOKENS -> tokens;
                case "attention_mask" -> numbers;
                case Feed.POSITIONS -> positions;
                default -> new long[tokens.length][length];
            };
            Tensor t = Tensor.allocate(
                    arena,
                    new TensorSpec(input.name(), Feed.tokenType(input, file, fed), Shape.of(tokens.length, length)));
            for (int row = 0; row < tokens.length; row++) {
                for (int i = 0; i < length; i++) {
                    set(t, (long) row * length + i, values[row][i]);
                }
            }
            tensors.put(input.name(), t);
        }
        feed.labels().ifPresent(l -> tensors.put(l, labels(l, labels, length, arena)));
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
