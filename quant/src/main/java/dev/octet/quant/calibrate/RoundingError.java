package dev.octet.quant.calibrate;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.statistics.TensorStatistics;

/** The error that a tensor takes in a format, from its statistics: what {@link Mse} looks for the least of. */
public final class RoundingError {
    private RoundingError() {}

    /**
     * The mean squared error per finite element, saturation included; elements of a bin of the histogram are taken to be spread evenly.
     *
     * @param clip the magnitude that maps to the format's largest number, positive
     */
    public static double mean(TensorStatistics statistics, Float8Format format, double clip) {
        if (statistics.amax() == 0) {
            return 0;
        }
        MagnitudeGrid grid = new MagnitudeGrid(format);
        return new Mse.Bins(statistics).error(grid, clip / grid.max()) / statistics.finiteCount();
    }

    /**
     * The same for evenly spaced numbers: a twelfth of the square of the step, plus what saturates.
     *
     * @param step distance of neighbours
     * @param clip the largest magnitude
     */
    public static double meanOfSteps(TensorStatistics statistics, double step, double clip) {
        if (statistics.amax() == 0) {
            return 0;
        }
        return step * step / 12 + ofSaturation(statistics, clip);
    }

    /** The part of the mean squared error that comes from elements beyond {@code clip}. */
    public static double ofSaturation(TensorStatistics statistics, double clip) {
        return statistics.amax() <= clip
                ? 0
                : new Mse.Bins(statistics).saturationError(clip) / statistics.finiteCount();
    }
}
