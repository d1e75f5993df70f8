package dev.octet.converter.checkpoint;

import dev.octet.quant.merge.WeightDelta;
import java.util.Set;

/** The weights of a checkpoint that adapters change, and how. */
public interface MergedWeights {
    /** No adapter. */
    MergedWeights NONE = new MergedWeights() {
        @Override
        public Set<String> names() {
            return Set.of();
        }

        @Override
        public WeightDelta delta(String name) {
            throw new IllegalArgumentException("no adapter changes '" + name + "'");
        }
    };

    /** The own names of all weights, biases and other tensors that change. */
    Set<String> names();

    /**
     * What happens to one of them. May read the adapter's tensors, and the base's where norms run down its columns, so whoever asks keeps it
     * while working on the weight. For use by several threads at once.
     *
     * @throws IllegalArgumentException when {@code name} is none of {@link #names()}
     */
    WeightDelta delta(String name);
}
