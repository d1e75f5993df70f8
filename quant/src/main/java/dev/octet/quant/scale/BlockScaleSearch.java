package dev.octet.quant.scale;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.BlockCast;
import dev.octet.quant.cast.ElementCast.Range;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.scale.ScaleRule.MseRule;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/**
 * Tries scales for the blocks of whole rows of a weight and keeps those with the least squared error of the values as readers decode them,
 * saturation included. Errors are summed in double precision in the order of the elements, so parts of a weight give the scales of the whole.
 *
 * <p>All blocks try their candidates at the same time, so each candidate costs one pass over the rows. For scales of whole tensors and for
 * training see {@link MseRule}.
 */
public final class BlockScaleSearch {
    private static final BlockCast CAST = BlockCast.best();

    /** Ranges tried for integers with a zero point: both ends times 1 down to .5. */
    private static final MseRule RANGES = new MseRule(0.5f, 1, 21);

    private final QuantType type;
    private final ScaleRuns runs;
    private final double @Nullable [] energies;
    private final float[] exact;
    private final MemorySegment values;
    private final MemorySegment codes;
    private final MemorySegment decoded;

    /**
     * A search over rows.
     *
     * @param type of the codes
     * @param dtype of the values: F32, BF16 or F16
     * @param floats the values, finite
     * @param runs the elements by blocks, none of which goes on beyond them
     * @param energies what squared errors are weighted with, one number for each column; null to weight them alike
     * @param arena owns what the search needs
     */
    public BlockScaleSearch(
            QuantType type,
            DType dtype,
            MemorySegment floats,
            ScaleRuns runs,
            double @Nullable [] energies,
            Arena arena) {
        this.type = type;
        this.runs = runs;
        this.energies = energies;
        this.exact = new float[Math.toIntExact(runs.elements())];
        this.values = arena.allocate(runs.elements() * Float.BYTES, 64);
        this.codes = arena.allocate(type.bytes(runs.elements()), 64);
        this.decoded = arena.allocate(values.byteSize(), 64);
        for (int i = 0; i < exact.length; i++) {
            exact[i] = Floats.get(dtype, floats, i);
        }
        MemorySegment.copy(exact, 0, values, Tensor.F32_LE, 0, exact.length);
    }

    /**
     * Finds the scales of symmetric codes.
     *
     * @param amax F32, the largest magnitude of each block, finite; becomes the number to store
     * @param scales takes F32, what readers multiply with
     */
    public void find(ScaleCandidates candidates, MemorySegment amax, MemorySegment scales) {
        int count = Math.toIntExact(runs.scaleCount());
        int[] best = new int[count];
        double[] least = new double[count];
        for (int candidate = 0; candidate < candidates.count(); candidate++) {
            for (int s = 0; s < count; s++) {
                set(scales, s, candidates.multiplier(candidates.stored(candidate, get(amax, s))));
            }
            CAST.encode(type, DType.F32, values, runs, scales, codes);
            CAST.decode(type, codes, runs, scales, DType.F32, decoded);
            keepBetter(candidate, errors(), best, least);
        }
        for (int s = 0; s < count; s++) {
            float stored = candidates.stored(best[s], get(amax, s));
            set(amax, s, stored);
            set(scales, s, candidates.multiplier(stored));
        }
    }

    /**
     * Finds scales and zero points: of ranges that shrink to half of the block's, both ends alike, the one with the least error; as {@link
     * AffineScale#of} for each.
     *
     * @param ranges of the blocks, widened to hold zero
     * @param scaleType what scales are stored as
     * @param scales takes an F32 for each block
     * @param zeroPoints takes an I8 for each block
     */
    public void findAffine(Range[] ranges, DType scaleType, MemorySegment scales, MemorySegment zeroPoints) {
        int[] best = new int[ranges.length];
        double[] least = new double[ranges.length];
        for (int candidate = 0; candidate < RANGES.steps(); candidate++) {
            for (int s = 0; s < ranges.length; s++) {
                affine(ranges[s], candidate, scaleType, s, scales, zeroPoints);
            }
            CAST.encodeAffine(type, DType.F32, values, runs, scales, zeroPoints, codes);
            CAST.decodeAffine(codes, runs, scales, zeroPoints, DType.F32, decoded);
            keepBetter(candidate, errors(), best, least);
        }
        for (int s = 0; s < ranges.length; s++) {
            affine(ranges[s], best[s], scaleType, s, scales, zeroPoints);
        }
    }

    private void affine(
            Range range, int candidate, DType scaleType, int s, MemorySegment scales, MemorySegment zeroPoints) {
        float part = RANGES.multiple(RANGES.steps() - 1 - candidate);
        AffineScale affine =
                AffineScale.of(new Range(range.smallest() * part, range.largest() * part), type, scaleType);
        set(scales, s, affine.scale());
        zeroPoints.set(ValueLayout.JAVA_BYTE, s, affine.zeroPoint());
    }

    private static void keepBetter(int candidate, double[] errors, int[] best, double[] least) {
        for (int s = 0; s < errors.length; s++) {
            if (candidate == 0 || errors[s] < least[s]) {
                least[s] = errors[s];
                best[s] = candidate;
            }
        }
    }

    private double[] errors() {
        double[] sums = new double[Math.toIntExact(runs.scaleCount())];
        float[] rounded = new float[exact.length];
        MemorySegment.copy(decoded, Tensor.F32_LE, 0, rounded, 0, rounded.length);
        runs.forEachGroup((first, count, scale) -> {
            int from = Math.toIntExact(first - runs.from());
            int to = Math.toIntExact(from + count);
            sums[Math.toIntExact(scale - runs.firstScale())] += error(rounded, from, to);
        });
        return sums;
    }

    private double error(float[] rounded, int from, int to) {
        double sum = 0;
        double[] weights = energies;
        if (weights == null) {
            for (int i = from; i < to; i++) {
                double e = (double) exact[i] - rounded[i];
                sum += e * e;
            }
            return sum;
        }
        for (int i = from; i < to; i++) {
            double e = (double) exact[i] - rounded[i];
            sum += weights[i % weights.length] * (e * e);
        }
        return sum;
    }

    private static float get(MemorySegment f32, int index) {
        return f32.get(Tensor.F32_LE, (long) index * Float.BYTES);
    }

    private static void set(MemorySegment f32, int index, float value) {
        f32.set(Tensor.F32_LE, (long) index * Float.BYTES, value);
    }
}
