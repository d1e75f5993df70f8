package dev.octet.converter.verify;

import dev.octet.converter.compare.CompareOptions;
import dev.octet.converter.compare.ModelDiff;
import dev.octet.converter.compare.Nearness;
import dev.octet.converter.compare.TensorComparison;
import dev.octet.converter.compare.TensorDiff;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * A model compared with its original, every element of both read once, and the conclusions from the errors of its codes.
 *
 * <p>Rounding to nearest leaves no code {@link Nearness#far} from the nearest one. Rounding with compensation (GPTQ and its kin) moves a
 * good part of the codes of every weight, none of them by much more than the errors that it makes up for. So a few far codes in a weight
 * whose others are the nearest are damage, and so is, among many, one that is further away than {@link #FURTHEST} times what all codes err
 * by.
 */
final class OriginalDiff {
    /**
     * Share of far codes up to which they are few. Compensation by less than a hundredth of a step leaves no code far, and by more makes
     * over one percent of the codes others: a code turns with the probability of what was added to it, in steps.
     */
    static final double FEW = 0.005;

    /**
     * Distance beyond the nearest code, in units of the root mean square error of all codes (of the nearest ones where most weights have no
     * others), that compensation does not reach: GPTQ of weights
     * behind correlated and outlying activations had up to 7.5 for INT8, 20 for E4M3 and E2M1 (damping 0.001 to 0.05).
     */
    static final double FURTHEST = 24;

    /** Root mean square error of compensated codes in units of that of the nearest: GPTQ had 1.2 to 2.6. */
    static final double MOST_COMPENSATED = 2.75;

    private final ModelDiff diff;
    private final Map<String, TensorDiff> byName = new HashMap<>();
    private final boolean compensated;

    private OriginalDiff(ModelDiff diff, Set<String> quantized) {
        this.diff = diff;
        diff.tensors().forEach(t -> byName.putIfAbsent(t.b(), t));
        double[] shares = diff.tensors().stream()
                .filter(t -> quantized.contains(t.b()) && t.nearness().elements() > 0)
                .mapToDouble(t -> (double) t.nearness().far() / t.nearness().elements())
                .sorted()
                .toArray();
        this.compensated = shares.length > 0 && shares[shares.length / 2] > FEW;
    }

    /** A comparison that was made before, of the original and the model. */
    static OriginalDiff of(ModelDiff diff, StoredCheckpoint stored) {
        return new OriginalDiff(diff, stored.weights().keySet());
    }

    /** Compares. */
    static OriginalDiff of(Checkpoint original, Checkpoint model, StoredCheckpoint stored, int threads)
            throws IOException {
        CompareOptions options = CompareOptions.defaults().withThreads(threads);
        return new OriginalDiff(
                TensorComparison.compare(original, model, stored, options),
                stored.weights().keySet());
    }

    /**
     * Compares two models of any format.
     *
     * @param quantized names of the quantised weights of {@code model}
     * @throws dev.octet.formats.error.OctetException when a file is not a model, or they have no weight in common
     */
    static OriginalDiff of(Path original, Path model, Set<String> quantized, int threads) throws IOException {
        CompareOptions options = CompareOptions.defaults().withThreads(threads);
        return new OriginalDiff(TensorComparison.compare(original, model, options), quantized);
    }

    /** All pairs. */
    List<TensorDiff> pairs() {
        return diff.tensors();
    }

    /** What could not be compared, and why. */
    List<ModelDiff.Uncomparable> uncomparable() {
        return diff.uncomparable();
    }

    /** The pair of a tensor of this checkpoint; null when the tensor is unpaired. */
    @Nullable
    TensorDiff of(String name) {
        return byName.get(name);
    }

    /** Error relative to the original, root mean square. */
    static double relativeError(TensorDiff pair) {
        return Math.pow(10, -pair.sqnrDb() / 20);
    }

    /**
     * Whether other readings of a weight's scales are worth trying: where it is not the original, or scales in square grids of blocks,
     * which are much the same everywhere, may be transposed.
     */
    boolean isToExplain(StoredWeight weight) {
        TensorDiff pair = of(weight.name());
        return pair == null
                || !(relativeError(pair) <= WeightFacts.Comparison.ROUNDING)
                || (pair.nearness().off() > 0 && weight.granularity() instanceof Granularity.PerBlock);
    }

    /** Whether the far codes of a weight are damage. */
    boolean isDamaged(Nearness n) {
        if (n.far() == 0) {
            return false;
        }
        boolean few = n.far() <= Math.ceil(FEW * n.elements());
        if (compensated) {
            return n.furthest() > FURTHEST * n.rms();
        }
        // codes are the nearest in general, so errors are measured by what rounding makes: damage must not raise its
        // limit
        return few || n.furthest() > FURTHEST * n.nearestRms() || n.rms() > MOST_COMPENSATED * n.nearestRms();
    }

    /** The place of an element of a pair, as {@code [3, 17]}. */
    static String place(TensorDiff pair, long index) {
        StringBuilder place = new StringBuilder("]");
        long rest = index;
        for (int axis = pair.shape().size() - 1; axis >= 0; axis--) {
            long size = Math.max(1, pair.shape().get(axis));
            place.insert(0, (axis > 0 ? ", " : "") + rest % size);
            rest /= size;
        }
        return "[" + place;
    }
}
