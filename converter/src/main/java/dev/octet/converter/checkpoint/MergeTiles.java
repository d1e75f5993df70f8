package dev.octet.converter.checkpoint;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.merge.WeightDelta;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;

/** Applies adapters to tiles and adds up what is left of them. For use by several threads at once. */
final class MergeTiles {
    /** Deltas in memory at a time: threads work on neighbouring tiles, which belong to few weights. */
    private static final int HELD = 4;

    private final MergedWeights merged;
    private final Map<String, WeightDelta> held = new LinkedHashMap<>(16, 0.75f, true);
    private final Map<String, NavigableMap<Long, MergeMeasure.Sums>> sums = new ConcurrentHashMap<>();

    MergeTiles(MergedWeights merged) {
        this.merged = merged;
    }

    /** Whether a weight changes. */
    boolean has(String weight) {
        return merged.names().contains(weight);
    }

    /** Whether {@link #measure} wants to see a weight. */
    boolean measures(String weight) {
        return merged.measured() && has(weight);
    }

    /** The weight of the source that one starts from. */
    String source(String weight) {
        return merged.added().getOrDefault(weight, weight);
    }

    private WeightDelta delta(String weight) {
        synchronized (held) {
            WeightDelta delta = held.get(weight);
            if (delta == null) {
                if (held.size() >= HELD) {
                    held.remove(held.keySet().iterator().next());
                }
                delta = merged.delta(weight);
                held.put(weight, delta);
            }
            return delta;
        }
    }

    /**
     * Turns rows of a weight into those of the merged weight.
     *
     * @param values rows of F32, replaced
     */
    void apply(String weight, long fromRow, MemorySegment values) {
        WeightDelta delta = delta(weight);
        float[] row = new float[delta.cols()];
        long bytes = (long) row.length * Float.BYTES;
        for (long at = 0, r = fromRow; at < values.byteSize(); at += bytes, r++) {
            MemorySegment.copy(values, Tensor.F32_LE, at, row, 0, row.length);
            delta.apply(r, row);
            for (int i = 0; i < row.length; i++) {
                if (!Float.isFinite(row[i])) {
                    throw new InvalidDataException(
                            "the changed weight holds " + row[i],
                            "tensor '" + weight + "', row " + r + ", column " + i,
                            merged.whenNotFinite());
                }
            }
            MemorySegment.copy(row, 0, values, Tensor.F32_LE, at, row.length);
        }
    }

    /**
     * Adds a tile to the measures of its weight.
     *
     * @param base F32 before the adapters
     * @param sum F32 after them
     * @param stored F32 as a reader of the target sees them
     */
    void measure(String weight, long fromRow, MemorySegment base, MemorySegment sum, MemorySegment stored) {
        if (!merged.measured()) {
            return;
        }
        double delta = 0;
        double error = 0;
        double along = 0;
        boolean changed = false;
        for (long at = 0; at < base.byteSize(); at += Float.BYTES) {
            float w = base.get(Tensor.F32_LE, at);
            float q = stored.get(Tensor.F32_LE, at);
            double d = (double) sum.get(Tensor.F32_LE, at) - w;
            double off = (double) q - sum.get(Tensor.F32_LE, at);
            delta += d * d;
            error += off * off;
            along += ((double) q - w) * d;
            changed |= q != w;
        }
        sums.computeIfAbsent(weight, _ -> new ConcurrentSkipListMap<>())
                .put(fromRow, new MergeMeasure.Sums(delta, error, along, changed));
    }

    /** The measures of all weights, in the order of the plan. */
    List<MergeMeasure> measures(CheckpointPlan plan) {
        List<MergeMeasure> measures = new ArrayList<>();
        for (ShardPlan shard : plan.shards()) {
            for (TensorStep step : shard.steps()) {
                NavigableMap<Long, MergeMeasure.Sums> tiles = sums.get(step.name());
                if (tiles != null) { // summed in the order of the rows, whatever thread was first
                    MergeMeasure.Sums all =
                            tiles.values().stream().reduce(MergeMeasure.Sums.ZERO, MergeMeasure.Sums::plus);
                    measures.add(all.of(step.name(), form(step), elements(step)));
                }
            }
        }
        return measures;
    }

    private static String form(TensorStep step) {
        return step instanceof TensorStep.Quantize q
                ? q.target().form()
                : step.targets().getFirst().dtype().toString();
    }

    private static long elements(TensorStep step) {
        return step instanceof TensorStep.Quantize q
                ? q.target().shape().elementCount()
                : step.targets().getFirst().shape().elementCount();
    }
}
