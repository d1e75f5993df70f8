package dev.octet.quant.calibrate;

import dev.octet.quant.number.QuantType;
import dev.octet.quant.statistics.LogHistogram;
import dev.octet.quant.statistics.TensorStatistics;

/**
 * The magnitude that {@code percent} of the finite elements (zeros counted) do not exceed. Exact but for the bin it lies in,
 * in which elements are taken to be spread evenly: off by less than 1/16 of the magnitude, usually by far less. Where
 * {@code percent} asks for zeros only, the least magnitude other than zero stands in, for a clip of 0 would lose the tensor.
 *
 * @param percent above 0, at most 100; 100 is {@link Absmax}
 */
public record Percentile(double percent) implements Calibrator {
    public Percentile {
        if (!(percent > 0 && percent <= 100)) {
            throw new IllegalArgumentException("percentile " + percent + " is not in (0, 100]");
        }
    }

    @Override
    public double clip(TensorStatistics statistics, QuantType type) {
        LogHistogram histogram = statistics.histogram();
        double left = percent / 100 * statistics.finiteCount() - statistics.zeros();
        for (int b = Math.max(0, histogram.firstBin()); b <= histogram.lastBin(); b++) {
            long n = histogram.count(b);
            if (n > 0 && left <= n) {
                double low = LogHistogram.lowerEdge(b);
                double high = LogHistogram.upperEdge(b);
                double inBin = low + (high - low) * Math.max(0, left / n);
                return Math.min(Math.max(inBin, Float.MIN_VALUE), statistics.amax());
            }
            left -= n;
        }
        return statistics.amax();
    }

    /** As {@code percentile:99.99}, a whole number without a fraction. */
    @Override
    public String text() {
        return "percentile:"
                + (percent == Math.rint(percent) ? String.valueOf((long) percent) : String.valueOf(percent));
    }
}
