package dev.octet.quant.calibrate;

import dev.octet.quant.number.QuantType;
import dev.octet.quant.statistics.LogHistogram;
import dev.octet.quant.statistics.TensorStatistics;

/**
 * The clip with the least expected squared error {@code E[(x - scale * round(x / scale))^2]}, the elements of each bin being
 * taken to be spread evenly over it (their error is integrated exactly, piece by piece between the format's rounding borders).
 *
 * <p>Candidates run down from {@code amax}, {@value #STEPS_PER_OCTAVE} an octave: a float grid repeats itself when scaled by two,
 * so the error has structure within each octave. The search ends when what saturates alone costs more than the best clip does
 * altogether, as that cost only grows from there; at equal error the larger clip wins.
 */
public record Mse() implements Calibrator {
    /** Candidates per octave: neighbours differ by 1 %, finer than the bins can tell. */
    static final int STEPS_PER_OCTAVE = 64;

    @Override
    public double clip(TensorStatistics statistics, QuantType type) {
        double amax = statistics.amax();
        if (amax == 0) {
            return 0;
        }
        Bins bins = new Bins(statistics);
        double best = amax;
        double least = Double.POSITIVE_INFINITY;
        for (int k = 0; ; k++) {
            double clip = amax * Math.pow(2, -(double) k / STEPS_PER_OCTAVE);
            if (bins.saturationError(clip) > least || clip < Float.MIN_VALUE) {
                return best;
            }
            MagnitudeGrid grid = MagnitudeGrid.of(type, statistics, clip);
            double error = bins.error(grid, clip / grid.max());
            if (error < least) {
                least = error;
                best = clip;
            }
        }
    }

    @Override
    public String text() {
        return "mse";
    }

    /** The bins that hold something, each with its even density; the last one ends at amax. */
    static final class Bins {
        private final int n;
        private final double[] low;
        private final double[] high;
        private final double[] density;

        Bins(TensorStatistics s) {
            LogHistogram h = s.histogram();
            int first = h.firstBin();
            int last = h.lastBin();
            low = new double[last - first + 1];
            high = new double[last - first + 1];
            density = new double[last - first + 1];
            int count = 0;
            for (int b = first; b <= last; b++) {
                if (h.count(b) > 0) {
                    low[count] = LogHistogram.lowerEdge(b);
                    // A hair wider than nothing when amax is the bin's lower edge, so that the density is finite
                    high[count] = b == last
                            ? Math.max(s.amax(), low[count] * (1 + 1e-9) + Float.MIN_VALUE * 1e-9)
                            : LogHistogram.upperEdge(b);
                    density[count] = h.count(b) / (high[count] - low[count]);
                    count++;
                }
            }
            n = count;
        }

        /** Sum of squared distances to {@code clip} of what lies above it. */
        double saturationError(double clip) {
            double sum = 0;
            for (int b = n - 1; b >= 0 && high[b] > clip; b--) {
                sum += density[b] * cubes(Math.max(low[b], clip) - clip, high[b] - clip);
            }
            return sum;
        }

        /** Sum of squared rounding errors, saturation included. */
        double error(MagnitudeGrid grid, double scale) {
            double sum = 0;
            for (int b = 0; b < n; b++) {
                double from = low[b];
                int i = grid.nearest(from / scale);
                while (from < high[b]) {
                    double to = Math.min(high[b], grid.upperBorder(i) * scale);
                    double value = grid.value(i) * scale;
                    if (to > from) {
                        sum += density[b] * cubes(from - value, to - value);
                        from = to;
                    }
                    i++;
                }
            }
            return sum;
        }

        /** Integral of t^2 from {@code a} to {@code b}. */
        private static double cubes(double a, double b) {
            return (b - a) * (a * a + a * b + b * b) / 3; // b^3 - a^3 without cancellation
        }
    }
}
