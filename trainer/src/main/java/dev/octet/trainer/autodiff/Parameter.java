package dev.octet.trainer.autodiff;

import dev.octet.formats.tensor.Tensor;
import java.util.Locale;

/**
 * A constant of a graph that training may change.
 *
 * @param tensor as the graph has it, of any float type
 * @param use what for
 */
public record Parameter(String name, Tensor tensor, Use use) {
    /** What a parameter does in its graph. */
    public enum Use {
        /** One factor of a matrix product or a convolution. */
        WEIGHT,
        /** Added to what a product gives, or to positions. */
        BIAS,
        /** Rows are looked up in it. */
        EMBEDDING,
        /** Scale or shift of a normalisation, or of channels. */
        NORM,
        /** Concatenated with activations: a class token, a prompt. */
        TOKEN;

        /** As {@code weight}. */
        public String text() {
            return name().toLowerCase(Locale.ROOT);
        }
    }
}
