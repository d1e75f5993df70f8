package dev.octet.quant.layout;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.scale.ScaleRule;

/**
 * How weights are quantised for a layout.
 *
 * @param codes what the codes are
 * @param granularity which elements share a scale; channels with axis -2
 * @param rule how a scale follows from the largest magnitude of its elements
 * @param scaleNumber the numbers that scales are: F32, BF16, F16, F8_E8M0, or F8_E4M3FN with a second level above them (NVFP4)
 */
public record WeightScheme(QuantType codes, Granularity granularity, ScaleRule rule, DType scaleNumber) {
    /** Whether one more scale for the whole tensor stands above the scales: {@code scale = globalScale * blockScale}. */
    public boolean twoLevels() {
        return scaleNumber == DType.F8_E4M3FN;
    }

    /** Whether all elements share one scale. */
    public boolean perTensor() {
        return granularity instanceof Granularity.PerTensor;
    }
}
