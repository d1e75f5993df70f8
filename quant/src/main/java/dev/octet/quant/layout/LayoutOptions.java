package dev.octet.quant.layout;

import dev.octet.formats.tensor.DType;
import org.jspecify.annotations.Nullable;

/**
 * Choices within a layout.
 *
 * @param scaleType how float scales are stored: F32, BF16 or F16; null for what the layout's readers want of a model: {@link
 *     Layout#scaleType}
 * @param powerOfTwoScales block scales are powers of two ({@code --scale-format ue8m0})
 * @param staticInputs an input scale from statistics is written for each weight
 */
public record LayoutOptions(@Nullable DType scaleType, boolean powerOfTwoScales, boolean staticInputs) {
    /** Scales of the type that readers want and of any value, dynamic activations. */
    public static LayoutOptions defaults() {
        return new LayoutOptions(null, false, false);
    }

    /** The type of scales; F32 as long as none is chosen. */
    DType scales() {
        return scaleType == null ? DType.F32 : scaleType;
    }

    /** These with a type of scales where none is chosen: that which {@code layout} has for a model of this type. */
    public LayoutOptions of(Layout layout, DType model) {
        return scaleType == null ? new LayoutOptions(layout.scaleType(model), powerOfTwoScales, staticInputs) : this;
    }

    /** These with another type of scales. */
    public LayoutOptions withScaleType(DType type) {
        return new LayoutOptions(type, powerOfTwoScales, staticInputs);
    }

    /** These with block scales that are powers of two or any number. */
    public LayoutOptions withPowerOfTwoScales(boolean powers) {
        return new LayoutOptions(scaleType, powers, staticInputs);
    }

    /** These with or without static inputs. */
    public LayoutOptions withStaticInputs(boolean inputs) {
        return new LayoutOptions(scaleType, powerOfTwoScales, inputs);
    }
}
