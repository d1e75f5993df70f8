package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.merge.WeightDelta;
import dev.octet.quant.work.Workers;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Scales of whole weights that engines expect to be equal because they fuse the weights: q, k and v, gate and up. Where they are equal in the
 * source they stay equal:
 *
 * <ol>
 *   <li>If adapters change all of the weights, they get one new scale.
 *   <li>If not, they keep the scale they have, so that the bytes of the others stay as they are.
 *   <li>If a sum is too large for that scale, all get the smallest power of two times it, which moves the exponents of the others' codes but
 *       rounds none that is not subnormal then.
 * </ol>
 */
final class SharedScales {
    private final Checkpoint checkpoint;
    private final StoredCheckpoint stored;
    private final WeightReader reader;
    private final MergedWeights merged;
    private final Map<String, Integer> growths = new HashMap<>();
    private final Map<String, List<StoredWeight>> groups = new HashMap<>();

    SharedScales(Checkpoint checkpoint, StoredCheckpoint stored, WeightReader reader, MergedWeights merged) {
        this.checkpoint = checkpoint;
        this.stored = stored;
        this.reader = reader;
        this.merged = merged;
    }

    /**
     * How the scale of a weight is found.
     *
     * @param group weights of the same group share a new scale; null where the scale is kept
     * @param baseScale the scale of the whole weight, a multiplier, of two levels the upper one as stored; NaN for a new one
     * @param growth by how many powers of two the scale is larger than the source's
     */
    record Sharing(@Nullable String group, float baseScale, int growth) {
        static Sharing own(String weight) {
            return new Sharing(weight, Float.NaN, 0);
        }
    }

    /** Of a weight with a scale for the whole of it, whether adapters change it or not. */
    Sharing of(StoredWeight weight) throws IOException {
        List<StoredWeight> equal = equal(weight);
        List<StoredWeight> changed =
                equal.stream().filter(w -> merged.names().contains(w.name())).toList();
        String group = LinearNames.fusedGroup(weight.name()).orElse(weight.name());
        if (equal.size() <= 1) {
            return Sharing.own(weight.name());
        }
        if (changed.size() == equal.size()) { // case 1
            return new Sharing(group, Float.NaN, 0);
        }
        Integer growth = growths.get(group);
        if (growth == null) {
            growth = growth(changed);
            growths.put(group, growth);
        }
        float grown = Math.scalb(scale(weight), isDivisor(weight) ? -growth : growth); // cases 2 and 3
        return new Sharing(null, grown, growth);
    }

    /** The weights that are fused with one and have its scale, with itself. */
    private List<StoredWeight> equal(StoredWeight weight) throws IOException {
        if (groups.isEmpty()) {
            for (StoredWeight w : stored.weights().values()) {
                groups.computeIfAbsent(LinearNames.fusedGroup(w.name()).orElse(w.name()), _ -> new ArrayList<>())
                        .add(w);
            }
        }
        float own = scale(weight);
        List<StoredWeight> equal = new ArrayList<>();
        for (StoredWeight other :
                groups.getOrDefault(LinearNames.fusedGroup(weight.name()).orElse(weight.name()), List.of())) {
            if (scale(other) == own) {
                equal.add(other);
            }
        }
        return equal;
    }

    private static @Nullable ScaleTensor whole(StoredWeight weight) {
        ScaleTensor global = weight.globalScale();
        return global != null ? global : weight.scale();
    }

    /** NaN for a weight whose matrices have scales of their own. */
    private float scale(StoredWeight weight) throws IOException {
        ScaleTensor whole = whole(weight);
        return whole == null || whole.spec().shape().elementCount() != 1 ? Float.NaN : reader.wholeScale(whole);
    }

    private static boolean isDivisor(StoredWeight weight) {
        ScaleTensor global = weight.globalScale();
        return global != null && global.direction() == ScaleTensor.Direction.DIVISOR;
    }

    /** By how many powers of two the shared scale is too small for the largest sum. */
    private int growth(List<StoredWeight> changed) throws IOException {
        int growth = 0;
        for (StoredWeight weight : changed) {
            growth =
                    Math.max(growth, StoredScheme.of(weight, stored, checkpoint).growth(scale(weight), amax(weight)));
        }
        return growth;
    }

    /** The largest magnitude of a merged weight. A sum that is not finite is refused when it is written. */
    private float amax(StoredWeight weight) throws IOException {
        WeightDelta delta = merged.delta(weight.name());
        List<Tile> tiles = Tile.of(weight.blocks(), weight.granularity());
        float[] largest = new float[tiles.size()];
        long cols = Blocks.cols(weight.shape());
        try {
            Workers.run(tiles.size(), Runtime.getRuntime().availableProcessors(), i -> {
                Tile tile = tiles.get(i);
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment floats = arena.allocate(tile.rows() * cols * Float.BYTES, Float.BYTES);
                    reader.read(weight.name(), tile.fromRow(), tile.fromRow() + tile.rows(), floats);
                    float[] row = new float[Math.toIntExact(cols)];
                    for (long r = 0; r < tile.rows(); r++) {
                        MemorySegment.copy(floats, Tensor.F32_LE, r * cols * Float.BYTES, row, 0, row.length);
                        delta.apply(tile.fromRow() + r, row);
                        for (float v : row) {
                            largest[i] = Math.max(largest[i], Math.abs(v));
                        }
                    }
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            });
        } catch (UncheckedIOException e) {
            throw Objects.requireNonNullElseGet(e.getCause(), () -> new IOException(e));
        }
        float all = 0;
        for (float one : largest) {
            all = Math.max(all, one);
        }
        return all;
    }
}
