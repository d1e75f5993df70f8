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
 * @param tensors by input name; off the heap; the first dimension of each is {@code size}, but of inputs that are one number
 *     for the whole batch
 */
public record Batch(int first, int size, Map<String, Tensor> tensors) {
    /** The input by which transformer exports learn which tokens are padding. */
    public static final String ATTENTION_MASK = "attention_mask";

    public Batch {
        tensors = Collections.unmodifiableMap(new LinkedHashMap<>(tensors));
    }

    /**
     * What one input is fed.
     *
     * @throws IllegalArgumentException when the batch has nothing for it
     */
    public Tensor tensor(String input) {
        Tensor t = tensors.get(input);
        if (t == null) {
            throw new IllegalArgumentException("no tensor for input '" + input + "', only " + tensors.keySet());
        }
        return t;
    }

    /** Which tokens are real; empty when the batch has no attention mask of rank 2, and so no padding. */
    public Optional<TokenMask> mask() {
        return Optional.ofNullable(tensors.get(ATTENTION_MASK)).flatMap(TokenMask::of);
    }
}
