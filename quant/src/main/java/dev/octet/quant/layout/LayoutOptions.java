package dev.octet.quant.layout;

import dev.octet.formats.tensor.DType;

/**
 * Choices within a layout.
 *
 * @param scaleType how float scales are stored: F32 (every reader takes it), BF16 or F16
 * @param powerOfTwoScales block scales are powers of two ({@code --scale-format ue8m0})
 * @param staticInputs an input scale from statistics is written for each weight
 */
public record LayoutOptions(DType scaleType, boolean powerOfTwoScales, boolean staticInputs) {
    /** F32 scales, any value, dynamic activations. */
    public static LayoutOptions defaults() {
        return new LayoutOptions(DType.F32, false, false);
    }
}
