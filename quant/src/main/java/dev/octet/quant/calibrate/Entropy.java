package dev.octet.quant.calibrate;

import dev.octet.quant.number.QuantType;
import dev.octet.quant.statistics.LogHistogram;
import dev.octet.quant.statistics.TensorStatistics;

/**
 * The clip whose quantised distribution tells least apart from the true one, by Kullback-Leibler divergence.
 *
 * <p>After S. Migacz, "8-bit Inference with TensorRT" (NVIDIA, GPU Technology Conference 2017), adapted from a uniform integer
 * grid to a float grid and from linear to logarithmic bins. For each candidate clip (the upper edge of a bin):
 * <ol>
 *   <li>P: the counts of the bins up to the clip, what lies above folded into the last of them;
 *   <li>Q: the same counts without the fold, gathered by the number of the format that the middle of each bin rounds to, and
 *       spread again over the bins of that number which hold something: evenly by width, as log bins are not equally wide;
 *   <li>the divergence {@code sum p ln(p / q)} of both, each divided by its sum.
 * </ol>
 * The least divergence wins; at equal divergence the larger clip. Zeros are in no bin: they quantise to themselves under every clip.
 *
 * <p>The talk tries no clip below 128 of 2048 bins, for with few bins left both distributions are trivially alike. A float grid
 * has no such natural count; here a clip that would saturate more than {@link #MAX_SATURATED} of the magnitudes is not tried.
 */
public record Entropy() implements Calibrator {
    /** Share of the magnitudes other than zero that may saturate. */
    static final double MAX_SATURATED = 0.01;

    @Override
    public double clip(TensorStatistics statistics, QuantType type) {
        if (statistics.amax() == 0) {
            return 0;
        }
        LogHistogram histogram = statistics.histogram();
        double total = histogram.total();
        double best = statistics.amax();
        double least = Double.POSITIVE_INFINITY;
        long above = 0;
        for (int last = histogram.lastBin(); last >= histogram.firstBin(); last--) {
            if (above > MAX_SATURATED * total) {
                break;
            }
            double clip = Math.min(LogHistogram.upperEdge(last), statistics.amax());
            if (histogram.count(last)
                    > 0) { // an empty bin's edge cuts as much off as the next lower one's, for a coarser grid
                MagnitudeGrid grid = MagnitudeGrid.of(type, statistics, clip);
                double divergence = divergence(histogram, last, above, grid, clip / grid.max());
                if (divergence < least) {
                    least = divergence;
                    best = clip;
                }
            }
            above += histogram.count(last);
        }
        return best;
    }

    /** KL(P || Q) of the bins up to {@code last}, of which {@code above} counts were cut off. */
    private static double divergence(LogHistogram h, int last, long above, MagnitudeGrid grid, double scale) {
        int first = h.firstBin();
        double[] mass = new double[grid.size()];
        double[] width = new double[grid.size()];
        int[] cell = new int[last - first + 1];
        double kept = 0;
        for (int b = first; b <= last; b++) {
            if (h.count(b) > 0) {
                int c = grid.nearest((LogHistogram.lowerEdge(b) + LogHistogram.upperEdge(b)) / 2 / scale);
                cell[b - first] = c;
                mass[c] += h.count(b);
                width[c] += widthOf(b);
                kept += h.count(b);
            }
        }
        double total = kept + above;
        double sum = 0;
        for (int b = first; b <= last; b++) {
            if (h.count(b) > 0) {
                int c = cell[b - first];
                double p = (h.count(b) + (b == last ? above : 0)) / total;
                double q = mass[c] * widthOf(b) / width[c] / kept;
                sum += p * Math.log(p / q);
            }
        }
        return sum;
    }

    private static double widthOf(int bin) {
        return LogHistogram.upperEdge(bin) - LogHistogram.lowerEdge(bin);
    }

    @Override
    public String text() {
        return "entropy";
    }
}
