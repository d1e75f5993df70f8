package dev.octet.quant.calibrate;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.statistics.TensorStatistics;

/** Nothing that was seen saturates: the clip is the greatest magnitude. */
public record Absmax() implements Calibrator {
    @Override
    public double clip(TensorStatistics statistics, Float8Format format) {
        return statistics.amax();
    }

    @Override
    public String text() {
        return "absmax";
    }
}
