package dev.octet.converter.checkpoint;

import dev.octet.quant.block.Granularity;
import dev.octet.quant.work.Workers;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * The largest magnitudes of whole weights, for scales of a whole weight or a group of fused weights. Each weight is read once for it,
 * before the first of its group is written.
 */
final class TensorAmax {
    private final TileMover mover;
    private final Map<String, List<TensorStep.Quantize>> groups = new HashMap<>();

    /** One magnitude for each scale of a weight, by weight. */
    private final Map<String, float[]> own = new HashMap<>();

    TensorAmax(CheckpointPlan plan, TileMover mover) {
        this.mover = mover;
        for (ShardPlan shard : plan.shards()) {
            for (TensorStep step : shard.steps()) {
                if (step instanceof TensorStep.Quantize q && q.group() != null) {
                    groups.computeIfAbsent(q.group(), _ -> new ArrayList<>()).add(q);
                }
            }
        }
    }

    /** Reads the magnitudes that the weights of a shard need. */
    void prepare(ShardPlan shard, int threads) {
        List<TensorStep.Quantize> unread = new ArrayList<>();
        for (TensorStep step : shard.steps()) {
            if (step instanceof TensorStep.Quantize q && q.group() != null && q.keptScales() == null) {
                for (TensorStep.Quantize member : groups.getOrDefault(q.group(), List.of())) {
                    if (own.putIfAbsent(member.name(), new float[scaleCount(member)]) == null) {
                        unread.add(member);
                    }
                }
            }
        }
        record Piece(TensorStep.Quantize step, Tile tile) {}
        List<Piece> pieces = new ArrayList<>();
        for (TensorStep.Quantize q : unread) {
            Tile.of(q.target().blocks(), sourceGranularity(q)).forEach(t -> pieces.add(new Piece(q, t)));
        }
        Workers.run(pieces.size(), threads, i -> {
            Piece piece = pieces.get(i);
            float amax = mover.amax(piece.step(), piece.tile());
            float[] of = Objects.requireNonNull(own.get(piece.step().name()));
            int index = of.length == 1 ? 0 : (int) piece.tile().matrix();
            synchronized (of) { // a maximum, so the order of the tiles does not matter
                of[index] = Math.max(of[index], amax);
            }
        });
    }

    private Granularity sourceGranularity(TensorStep.Quantize q) {
        return mover.sourceGranularity(q.name());
    }

    private static int scaleCount(TensorStep.Quantize q) {
        long matrices = q.target().blocks().matrices();
        var scale =
                q.scheme().twoLevels() ? q.target().globalScale() : q.target().scale();
        return scale == null || scale.spec().shape().elementCount() == 1 ? 1 : Math.toIntExact(matrices);
    }

    /** The largest magnitude that determines the scale of a weight's matrix: its own, or its group's. */
    float amax(TensorStep.Quantize step, long matrix) {
        float largest = 0;
        for (TensorStep.Quantize member : groups.getOrDefault(String.valueOf(step.group()), List.of())) {
            largest = Math.max(largest, ownAmax(member, matrix));
        }
        return largest;
    }

    /** The largest magnitude of a weight's own matrix. */
    float ownAmax(TensorStep.Quantize step, long matrix) {
        float[] of = own.get(step.name());
        if (of == null) {
            throw new IllegalStateException(step.name() + " was not prepared");
        }
        return of[of.length == 1 ? 0 : (int) matrix];
    }

    /** The costs of sharing, for each group whose weights would have different scales of their own; worst first. */
    List<SharedScale> costs() {
        List<SharedScale> costs = new ArrayList<>();
        groups.forEach((group, members) -> {
            boolean read = members.stream().allMatch(m -> own.containsKey(m.name()));
            if (members.size() > 1 && read && members.getFirst().scheme().perTensor()) {
                costs.add(cost(group, members));
            }
        });
        costs.sort(Comparator.comparingDouble(SharedScale::lostDb).reversed().thenComparing(SharedScale::group));
        return costs;
    }

    private SharedScale cost(String group, List<TensorStep.Quantize> members) {
        double smallest = Double.POSITIVE_INFINITY;
        double largest = 0;
        double lostDb = 0;
        for (TensorStep.Quantize member : members) {
            if (ownAmax(member, 0) == 0) {
                continue; // zeros are zeros by any scale
            }
            float alone = member.scheme().storedScale(ownAmax(member, 0));
            float shared = member.scheme().storedScale(amax(member, 0));
            smallest = Math.min(smallest, alone);
            largest = Math.max(largest, alone);
            if (alone != shared) {
                double lost = mover.lostDb(member, shared, alone);
                // all-zero rows have no signal-to-noise ratio
                lostDb = Double.isFinite(lost) ? Math.max(lostDb, lost) : lostDb;
            }
        }
        List<String> names = members.stream().map(TensorStep.Quantize::name).toList();
        return new SharedScale(group, names, largest == 0 ? 1 : largest / smallest, lostDb);
    }
}
