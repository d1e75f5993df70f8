package dev.octet.trainer.autodiff;

import dev.octet.formats.tensor.Tensor;
import java.util.Locale;

/**
 * A constant of a graph that training may change.
 *
 * @param tensor as stored in the graph, any float type
 * @param use its role in the graph
 */
public record Parameter(String name, Tensor tensor, Use use) {
    /** Role of a parameter in its graph. */
    public enum Use {
        /** One factor of a matrix product or a convolution. */
        WEIGHT,
        /** Added to the result of a product, or to positions. */
        BIAS,
        /** Table from which rows are looked up. */
        EMBEDDING,
        /** Scale or shift of a normalisation, or of channels. */
        NORM,
        /** Concatenated with the activations: a class token, a prompt. */
        TOKEN;

        /** The name in lower case: {@code weight}. */
        public String text() {
            return name().toLowerCase(Locale.ROOT);
        }
    }
}
