package dev.octet.converter.compare;

import dev.octet.formats.error.OctetException;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.measure.CastError;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.LongStream;
import org.jspecify.annotations.Nullable;

/** The comparison of one pair: any thread measures any tile; the thread that finishes last adds the tiles in their order. */
final class PairWork {
    private static final int CHUNK = 2048;
    private static final long SCALES_AT_A_TIME = 1 << 16;

    private final Pairing.Pair pair;
    private final DeclaredRounding declared;
    private final Tiles tiles;
    private final AtomicInteger left;
    private @Nullable PairSums @Nullable [] partial;
    private PairSums sums = new PairSums();
    private @Nullable String failure;
    private @Nullable TensorDiff result;

    PairWork(Pairing.Pair pair, DeclaredRounding declared) {
        this.pair = pair;
        this.declared = declared;
        this.tiles = Tiles.of(pair.a().elements(), pair.b().elements());
        this.left = new AtomicInteger(tiles.size());
    }

    Pairing.Pair pair() {
        return pair;
    }

    int tileCount() {
        return tiles.size();
    }

    /** The sums over all tiles; valid once all are measured. */
    PairSums sums() {
        return sums;
    }

    /** Why the pair could not be compared; valid once all tiles are measured. */
    synchronized Optional<String> failure() {
        return Optional.ofNullable(failure);
    }

    /** The result; empty when the pair could not be compared, or tiles are still missing. */
    Optional<TensorDiff> result() {
        return Optional.ofNullable(result);
    }

    /**
     * Measures tile {@code tile}.
     *
     * @return elements measured
     * @throws IOException when a file cannot be read
     */
    long measure(int tile, TileBuffers buffers) throws IOException {
        long from = tiles.from(tile);
        long to = tiles.to(tile);
        try {
            if (failure().isEmpty()) {
                put(tile, sums(from, to, buffers));
            }
        } catch (OctetException e) {
            fail(e);
        }
        if (left.decrementAndGet() == 0) {
            finish();
        }
        return to - from;
    }

    private synchronized void put(int tile, PairSums tileSums) {
        if (partial == null) {
            partial = new PairSums[tiles.size()];
        }
        partial[tile] = tileSums;
    }

    private synchronized void fail(OctetException e) {
        String reason = e.what() + " (" + e.where() + ")";
        // of several the first in alphabetical order, because the order of threads is arbitrary
        if (failure == null || reason.compareTo(failure) < 0) {
            failure = reason;
        }
    }

    private PairSums sums(long from, long to, TileBuffers buffers) throws IOException {
        Weight a = pair.a();
        Weight b = pair.b();
        long bytes = (to - from) * Float.BYTES;
        MemorySegment valuesA = buffers.part(0, bytes);
        MemorySegment valuesB = buffers.part(1, bytes);
        boolean multipliedA = a.grid().quantized();
        boolean multipliedB = b.grid().quantized();
        MemorySegment multipliersA = buffers.part(2, multipliedA ? bytes : 0);
        MemorySegment multipliersB = buffers.part(3, multipliedB ? bytes : 0);
        a.elements().read(from, to, valuesA);
        b.elements().read(from, to, valuesB);
        if (multipliedA) {
            a.elements().readMultipliers(from, to, multipliersA);
        }
        if (multipliedB) {
            b.elements().readMultipliers(from, to, multipliersB);
        }
        PairSums tile = new PairSums();
        float[] x = new float[CHUNK];
        float[] y = new float[CHUNK];
        float[] s = new float[CHUNK];
        float[] t = new float[CHUNK];
        for (long i = 0; i < to - from; i += CHUNK) {
            int n = (int) Math.min(CHUNK, to - from - i);
            MemorySegment.copy(valuesA, Tensor.F32_LE, i * Float.BYTES, x, 0, n);
            MemorySegment.copy(valuesB, Tensor.F32_LE, i * Float.BYTES, y, 0, n);
            if (multipliedA) {
                MemorySegment.copy(multipliersA, Tensor.F32_LE, i * Float.BYTES, s, 0, n);
            }
            if (multipliedB) {
                MemorySegment.copy(multipliersB, Tensor.F32_LE, i * Float.BYTES, t, 0, n);
            }
            tile.add(from + i, x, s, a.grid(), y, t, b.grid(), n);
        }
        return tile;
    }

    private void finish() throws IOException {
        if (failure().isPresent()) {
            return;
        }
        PairSums all = new PairSums();
        for (PairSums tile : takePartial()) {
            if (tile != null) {
                all.plus(tile);
            }
        }
        sums = all;
        try {
            result = diff(all);
        } catch (OctetException e) {
            fail(e);
        }
    }

    private synchronized @Nullable PairSums[] takePartial() {
        @Nullable PairSums[] taken = partial == null ? new PairSums[0] : partial;
        partial = null;
        return taken;
    }

    private TensorDiff diff(PairSums all) throws IOException {
        Weight a = pair.a();
        Weight b = pair.b();
        CastError measures = all.measures();
        List<String> notes = new ArrayList<>();
        ScaleChanges scales = scaleChanges(a.scales(), b.scales());
        RoundingSignature rounding = SignatureSearch.search(a, b, all, declared, notes);
        note(all, rounding, notes);
        double amaxChange = all.amaxA == all.amaxB ? 0 : Math.abs((double) all.amaxB - all.amaxA) / all.amaxA;
        return new TensorDiff(
                a.name(),
                b.name(),
                pair.match(),
                pair.transposed(),
                LongStream.of(a.shape().toArray()).boxed().toList(),
                a.scheme(),
                b.scheme(),
                closeness(all, scales),
                a.shape().elementCount(),
                measures.cosine(),
                measures.sqnrDb(),
                all.maxError,
                all.maxUlp,
                all.amaxA,
                all.amaxB,
                amaxChange,
                all.differing,
                all.zeroSigns,
                all.notFinite,
                all.apart,
                scales,
                a.inputScale(),
                b.inputScale(),
                rounding,
                Arrays.stream(all.histogram).boxed().toList(),
                all.nearness(),
                notes);
    }

    private Closeness closeness(PairSums all, @Nullable ScaleChanges scales) {
        if (all.apart > 0 || all.beyondOneRounding() > 0) {
            return Closeness.BEYOND;
        }
        if (all.differing > 0) {
            return Closeness.WITHIN_ONE_ROUNDING;
        }
        boolean sameForm = pair.a().scheme().equals(pair.b().scheme()) && all.zeroSigns == 0;
        boolean sameScales = scales == null || scales.changed() == 0;
        return sameForm && sameScales && !inputScaleChanged() ? Closeness.IDENTICAL : Closeness.SAME_VALUES;
    }

    private boolean inputScaleChanged() {
        return Double.compare(pair.a().inputScale(), pair.b().inputScale()) != 0;
    }

    private void note(PairSums all, RoundingSignature rounding, List<String> notes) {
        if (all.apart > 0) {
            notes.add(all.apart + " elements are NaN or infinite on one side only");
        }
        if (all.zeroSigns > 0) {
            notes.add(all.zeroSigns + " zeros differ in sign");
        }
        // compensated rounding chooses scales that clip a few: said once for all tensors
        if (all.towardB.saturated > 0 && !rounding.isCompensated()) {
            notes.add(all.towardB.saturated + " elements of A lie beyond the largest number of B");
        }
        if (all.towardA.saturated > 0 && !rounding.isCompensated()) {
            notes.add(all.towardA.saturated + " elements of B lie beyond the largest number of A");
        }
        if (inputScaleChanged()) {
            notes.add("input scale " + text(pair.a().inputScale()) + " and "
                    + text(pair.b().inputScale()));
        }
    }

    private static String text(double inputScale) {
        return Double.isNaN(inputScale) ? "none" : Double.toString(inputScale);
    }

    /** The changes of the scales; null unless both sides have the same granularity. */
    private static @Nullable ScaleChanges scaleChanges(@Nullable ScaleList a, @Nullable ScaleList b)
            throws IOException {
        if (a == null || b == null || !a.granularity().equals(b.granularity()) || a.count() != b.count()) {
            return null;
        }
        long changed = 0;
        double ratio = 1;
        try (Arena arena = Arena.ofConfined()) {
            long step = Math.min(SCALES_AT_A_TIME, a.count());
            MemorySegment first = arena.allocate(step * Float.BYTES, 64);
            MemorySegment second = arena.allocate(step * Float.BYTES, 64);
            for (long from = 0; from < a.count(); from += step) {
                long to = Math.min(a.count(), from + step);
                a.read(from, to, first.asSlice(0, (to - from) * Float.BYTES));
                b.read(from, to, second.asSlice(0, (to - from) * Float.BYTES));
                for (long i = 0; i < to - from; i++) {
                    float x = first.get(Tensor.F32_LE, i * Float.BYTES);
                    float y = second.get(Tensor.F32_LE, i * Float.BYTES);
                    if (x != y) {
                        changed++;
                        ratio = Math.max(ratio, ratio(x, y));
                    }
                }
            }
        }
        return new ScaleChanges(a.count(), changed, ratio);
    }

    private static double ratio(double x, double y) {
        return x > 0 && y > 0 ? Math.max(x / y, y / x) : Double.POSITIVE_INFINITY;
    }
}
