package dev.octet.trainer.activation;

import java.util.regex.Pattern;

/** Which forward steps backward repeats instead of keeping their results ({@code gradient_checkpointing:}). */
public sealed interface Recompute {
    /** Nothing is repeated. */
    Recompute NONE = new None();

    /** All results that backward reads are kept. */
    record None() implements Recompute {}

    /**
     * The transformer's layers, {@code count} after {@code count}: of each group only what it reads from outside is kept (Chen et al., "Training deep nets with
     * sublinear memory cost", arXiv 1604.06174). With 1 each layer is a group ({@code layers: all}).
     *
     * @param count at least 1
     */
    record Layers(int count) implements Recompute {}

    /**
     * Steps whose node's name has a match of the pattern; those of one layer are a group.
     *
     * @param pattern searched anywhere in the name
     */
    record Matching(Pattern pattern) implements Recompute {
        /** By the pattern's text. */
        @Override
        public boolean equals(Object other) {
            return other instanceof Matching m && m.pattern.pattern().equals(pattern.pattern());
        }

        @Override
        public int hashCode() {
            return pattern.pattern().hashCode();
        }
    }

    /**
     * The cheapest groups of layers with which the memory of a micro-batch fits.
     *
     * @param bytes largest size of the arena of a micro-batch's values: inputs, activations, gradients that are passed on
     */
    record Budget(long bytes) implements Recompute {}
}
