package dev.octet.quant.calibrate;

import dev.octet.quant.number.QuantType;
import dev.octet.quant.statistics.TensorStatistics;

/** Nothing that was seen saturates: the clip is the greatest magnitude. */
public record Absmax() implements Calibrator {
    @Override
    public double clip(TensorStatistics statistics, QuantType type) {
        return statistics.amax();
    }

    @Override
    public String text() {
        return "absmax";
    }
}
