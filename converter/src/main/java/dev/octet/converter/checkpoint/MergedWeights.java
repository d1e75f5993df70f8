package dev.octet.converter.checkpoint;

import dev.octet.quant.merge.WeightDelta;
import java.util.Map;
import java.util.Set;

/** The weights of a checkpoint whose floats change on the way, and how: by adapters, or by transforms. */
public interface MergedWeights {
    /** None. */
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

    /** Plain weights that the checkpoint lacks, each with the one whose numbers it starts from; they are among {@link #names}. */
    default Map<String, String> added() {
        return Map.of();
    }

    /** Whether what is left of the changes is measured. */
    default boolean measured() {
        return true;
    }

    /** What to do when a changed weight is not finite. */
    default String whenNotFinite() {
        return "look for NaN and infinity in the adapter (`octet inspect ADAPTER`) and in the base; such a sum has no"
                + " merged weight";
    }
}
