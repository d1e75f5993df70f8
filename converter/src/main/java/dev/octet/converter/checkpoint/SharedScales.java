package dev.octet.converter.checkpoint;

import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * Scales of whole weights that engines expect to be equal because they fuse the weights: q, k and v, gate and up. Where they are equal in the
 * source they stay equal: if adapters change all of the weights, by a new scale for all of them; if not, by the scale they have, so that
 * the bytes of the others stay as they are.
 */
final class SharedScales {
    private final StoredCheckpoint stored;
    private final WeightReader reader;

    SharedScales(StoredCheckpoint stored, WeightReader reader) {
        this.stored = stored;
        this.reader = reader;
    }

    /**
     * How the scale of a weight is found.
     *
     * @param group weights of the same group share a new scale; null where the scale is kept
     * @param baseScale the scale that is kept, a multiplier, of two levels the upper one as stored; NaN for a new one
     */
    record Sharing(@Nullable String group, float baseScale) {}

    Sharing of(StoredWeight weight, Predicate<String> changes) throws IOException {
        String group = LinearNames.fusedGroup(weight.name()).orElse(weight.name());
        float own = scale(weight);
        List<StoredWeight> equal = new ArrayList<>();
        for (StoredWeight other : stored.weights().values()) {
            boolean fused = LinearNames.fusedGroup(other.name()).orElse(other.name()).equals(group);
            if (fused && !other.name().equals(weight.name()) && scale(other) == own) {
                equal.add(other);
            }
        }
        if (equal.isEmpty()) {
            return new Sharing(weight.name(), Float.NaN);
        }
        boolean all = equal.stream().allMatch(o -> changes.test(o.name()));
        return all ? new Sharing(group, Float.NaN) : new Sharing(null, own);
    }

    /** NaN for a weight whose matrices have scales of their own. */
    private float scale(StoredWeight weight) throws IOException {
        ScaleTensor global = weight.globalScale();
        ScaleTensor whole = global != null ? global : weight.scale();
        return whole == null || whole.spec().shape().elementCount() != 1 ? Float.NaN : reader.wholeScale(whole);
    }
}
