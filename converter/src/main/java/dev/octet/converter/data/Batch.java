package dev.octet.converter.data;

import dev.octet.formats.tensor.Tensor;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/**
 * Some consecutive samples, ready for a model.
 *
 * @param first index of the first sample in its data set
 * @param size number of samples
 * @param tensors by input name, off the heap; the first dimension of each is {@code size}, except for inputs that are one number for the
 *     whole batch
 */
public record Batch(int first, int size, Map<String, Tensor> tensors) {
    /** The input that marks padding tokens in transformer exports. */
    public static final String ATTENTION_MASK = "attention_mask";

    public Batch {
        tensors = Collections.unmodifiableMap(new LinkedHashMap<>(tensors));
    }

    /**
     * The tensor for one input.
     *
     * @throws IllegalArgumentException when the batch has no tensor for the input
     */
    public Tensor tensor(String input) {
        Tensor t = tensors.get(input);
        if (t == null) {
            throw new IllegalArgumentException("no tensor for input '" + input + "', only " + tensors.keySet());
        }
        return t;
    }

    /** The same samples with further tensors, or others under a name that is there. */
    public Batch with(Map<String, Tensor> more) {
        Map<String, Tensor> all = new LinkedHashMap<>(tensors);
        all.putAll(more);
        return new Batch(first, size, all);
    }

    /** The real tokens; empty when the batch has no attention mask of rank 2 and therefore no padding. */
    public Optional<TokenMask> mask() {
        return Optional.ofNullable(tensors.get(ATTENTION_MASK)).flatMap(TokenMask::of);
    }
}
