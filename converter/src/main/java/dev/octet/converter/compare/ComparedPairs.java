package dev.octet.converter.compare;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Some of the weights of two models, compared by one of several processes; {@link TensorComparison#joined} makes a whole of all. */
public final class ComparedPairs implements Serializable {
    private static final long serialVersionUID = 1;

    private final ArrayList<Pair> pairs;

    private ComparedPairs(List<Pair> pairs) {
        this.pairs = new ArrayList<>(pairs);
    }

    /**
     * One pair.
     *
     * @param index its number among all pairs
     * @param failure why it could not be compared; null where it could
     * @param diff null where it could not
     */
    record Pair(
            int index, @Nullable String failure, @Nullable TensorDiff diff, PairSums sums) implements Serializable {
        static Pair of(int index, PairWork work) {
            return new Pair(index, work.failure().orElse(null), work.result().orElse(null), work.sums());
        }
    }

    static ComparedPairs of(List<Pair> pairs) {
        return new ComparedPairs(pairs);
    }

    List<Pair> pairs() {
        return pairs;
    }

    /** How many pairs were compared. */
    public int count() {
        return pairs.size();
    }
}
