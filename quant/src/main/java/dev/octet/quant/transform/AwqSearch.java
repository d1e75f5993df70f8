package dev.octet.quant.transform;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.merge.WeightDelta;
import dev.octet.quant.merge.WeightGrid;
import dev.octet.quant.work.Workers;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * AWQ's search for factors (arXiv:2306.00978; mit-han-lab/llm-awq, auto_scale.py; "duo" as llm-compressor has it). Of 20 exponents
 * {@code r = i / 20} it takes the one with the least error of the Linears' outputs: {@code s_j = max(mean|x_j|^r, 1e-4)}, or with duo {@code
 * max(mean|x_j|^r / (mean|w_j|^(1 - r) + 1e-4), 1e-4)}, each divided by {@code sqrt(max s * min s)}; {@code mean|w_j|} is of magnitudes over
 * the largest of their group.
 *
 * <p>The error is {@code sum of e^T H e} over the rows e of {@code Q(W s) / s - W}, with the second moment H of the inputs: exactly the
 * squared error of the outputs over all samples, without running the model. llm-awq measures it behind the block, attention or MLP, of the
 * layer.
 */
public final class AwqSearch {
    /** Exponents tried. */
    public static final int RATIOS = 20;

    /** Rows of a weight that are measured; of a larger one every n-th. */
    private static final int MOST_ROWS = 1024;

    private static final int BAND = 32;
    private static final double SMALLEST = 1e-4;

    private AwqSearch() {}

    /**
     * A weight [count, channels] that reads the input.
     *
     * @param rows of it
     */
    public record Reader(WeightDelta.Rows rows, int count) {}

    /**
     * What to search for.
     *
     * @param duo whether factors follow from weights, too
     * @param magnitudes mean magnitude of each channel of the input
     * @param shared for each channel the first channel that must have the same factor, usually its own number
     * @param moment of the input
     * @param grid what the weights will be rounded to
     */
    @SuppressWarnings("ArrayRecordComponent") // handed over, never compared
    public record Problem(
            boolean duo,
            double[] magnitudes,
            int[] shared,
            SecondMoment moment,
            List<Reader> readers,
            WeightGrid grid,
            int threads) {}

    /**
     * What was found.
     *
     * @param ratio the exponent
     * @param factors positive and finite
     * @param losses mean squared error of an output for each exponent
     */
    @SuppressWarnings("ArrayRecordComponent") // handed over, never compared
    public record Found(double ratio, double[] factors, double[] losses) {}

    /** Elements that share a scale along a row: a group, or all of it. */
    public static int groupSize(WeightGrid grid, int cols) {
        return switch (grid.scheme().granularity()) {
            case Granularity.PerGroup(int _, int size) -> Math.min(size, cols);
            case Granularity.Mx(int _, int size) -> Math.min(size, cols);
            case Granularity.PerBlock(int _, int width) -> Math.min(width, cols);
            default -> cols;
        };
    }

    /** Searches. The result does not depend on the number of threads. */
    public static Found search(Problem problem) {
        int channels = problem.magnitudes.length;
        double[] x = averaged(problem.magnitudes, problem.shared);
        float[][] largest = new float[problem.readers.size()][channels];
        double[] means = averaged(weightMeans(problem, channels, largest), problem.shared);
        double[][] candidates = new double[RATIOS][];
        float[] wholes = new float[RATIOS];
        for (int i = 0; i < RATIOS; i++) {
            candidates[i] = factors(x, problem.duo ? means : null, (double) i / RATIOS);
            float amax = 0;
            for (float[] columns : largest) {
                for (int c = 0; c < channels; c++) {
                    amax = Math.max(amax, (float) (columns[c] * candidates[i][c]));
                }
            }
            wholes[i] = problem.grid.hasWholeScale() ? problem.grid.wholeScale(amax) : 1;
        }
        problem.moment.diagonal(); // what waits is added up, and threads may read it
        double[] losses = new double[RATIOS];
        long measured = 0;
        for (Reader reader : problem.readers) {
            int every = Math.ceilDiv(reader.count, MOST_ROWS);
            int rows = Math.ceilDiv(reader.count, every);
            int band = Math.max(BAND, problem.grid.scheme().granularity().rowAlignment());
            double[][] sums = new double[Math.ceilDiv(rows, band)][];
            Workers.run(sums.length, problem.threads, b -> {
                int first = b * band;
                int count = Math.min(band, rows - first);
                sums[b] = losses(problem, reader, first, count, every, candidates, wholes);
            });
            for (double[] sum : sums) {
                for (int i = 0; i < RATIOS; i++) {
                    losses[i] += sum[i];
                }
            }
            measured += rows;
        }
        int best = 0;
        for (int i = 0; i < RATIOS; i++) {
            losses[i] /= Math.max(1.0, (double) measured * problem.moment.rows());
            best = losses[i] < losses[best] ? i : best;
        }
        return new Found((double) best / RATIOS, candidates[best], losses);
    }

    /** Each channel's mean over those that share its factor. */
    private static double[] averaged(double[] of, int[] shared) {
        double[] sums = new double[of.length];
        int[] counts = new int[of.length];
        for (int c = 0; c < of.length; c++) {
            sums[shared[c]] += of[c];
            counts[shared[c]]++;
        }
        double[] means = new double[of.length];
        for (int c = 0; c < of.length; c++) {
            means[c] = sums[shared[c]] / counts[shared[c]];
        }
        return means;
    }

    /** Mean over all rows of magnitudes over the largest of their group; fills the largest magnitudes of columns. */
    private static double[] weightMeans(Problem problem, int channels, float[][] largest) {
        double[] sums = new double[channels];
        long rows = 0;
        int group = groupSize(problem.grid, channels);
        float[] row = new float[channels];
        for (int m = 0; m < largest.length; m++) {
            Reader reader = problem.readers.get(m);
            for (int r = 0; r < reader.count; r++) {
                reader.rows.read(r, row);
                for (int from = 0; from < channels; from += group) {
                    int to = Math.min(channels, from + group);
                    float top = 0;
                    for (int c = from; c < to; c++) {
                        top = Math.max(top, Math.abs(row[c]));
                    }
                    for (int c = from; c < to; c++) {
                        float magnitude = Math.abs(row[c]);
                        largest[m][c] = Math.max(largest[m][c], magnitude);
                        sums[c] += magnitude / (top + 1e-6);
                    }
                }
            }
            rows += reader.count;
        }
        for (int c = 0; c < channels; c++) {
            sums[c] /= Math.max(1, rows);
        }
        return sums;
    }

    private static double[] factors(double[] x, double @Nullable [] weights, double ratio) {
        double[] s = new double[x.length];
        double most = 0;
        double least = Double.POSITIVE_INFINITY;
        for (int c = 0; c < s.length; c++) {
            double value = Math.pow(x[c], ratio);
            if (weights != null) {
                value /= Math.pow(weights[c], 1 - ratio) + SMALLEST;
            }
            s[c] = Math.max(value, SMALLEST);
            most = Math.max(most, s[c]);
            least = Math.min(least, s[c]);
        }
        double middle = Math.sqrt(most * least);
        for (int c = 0; c < s.length; c++) {
            s[c] /= middle;
        }
        return s;
    }

    /** The error of some rows for each candidate. */
    private static double[] losses(
            Problem problem, Reader reader, int first, int count, int every, double[][] candidates, float[] wholes) {
        int channels = problem.magnitudes.length;
        float[][] rows = new float[count][channels];
        for (int r = 0; r < count; r++) {
            reader.rows.read((long) (first + r) * every, rows[r]);
        }
        double[] losses = new double[candidates.length];
        double[][] errors = new double[channels][count];
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment scaled = arena.allocate((long) count * channels * Float.BYTES, 64);
            MemorySegment rounded = arena.allocate(scaled.byteSize(), 64);
            for (int k = 0; k < candidates.length; k++) {
                double[] s = candidates[k];
                for (int r = 0; r < count; r++) {
                    for (int c = 0; c < channels; c++) {
                        scaled.setAtIndex(Tensor.F32_LE, (long) r * channels + c, (float) (rows[r][c] * s[c]));
                    }
                }
                problem.grid.round(count, channels, scaled, wholes[k], DType.F32, rounded);
                for (int r = 0; r < count; r++) {
                    for (int c = 0; c < channels; c++) {
                        errors[c][r] = rounded.getAtIndex(Tensor.F32_LE, (long) r * channels + c) / s[c] - rows[r][c];
                    }
                }
                for (double cost : problem.moment.costs(errors)) {
                    losses[k] += cost;
                }
            }
        }
        return losses;
    }
}
