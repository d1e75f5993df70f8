package dev.octet.converter.plan;

import org.jspecify.annotations.Nullable;

/**
 * The scales that a training run left for one Linear.
 *
 * @param inputAmax largest |x| of the Linear's input in the run's history; 0 when the history is empty
 * @param inputScale dequantisation multiplier of the input; null when the run observed none: the layer did not run in FP8, or finds its
 *     scale anew for each batch in a way that has no static form
 * @param weightQuantScale the factor that the run multiplies the weight by before rounding (the reciprocal of the dequantisation
 *     multiplier), one for the whole weight; null when scales of weights follow from their values
 * @param reason why the input scale is missing, in words; empty when it is there
 * @param inputZeroPoint the code of zero in -128 .. 127 of inputs in integers with zero points; 0 elsewhere
 * @param weightScales the multipliers of the weight's codes, which the run learned; null when it did not
 */
public record LinearScales(
        double inputAmax,
        @Nullable Float inputScale,
        @Nullable Float weightQuantScale,
        String reason,
        int inputZeroPoint,
        @Nullable WeightScales weightScales) {
    public LinearScales {
        requireNormal("input", inputScale);
        requireNormal("weight", weightQuantScale);
        if (!(inputAmax >= 0 && inputAmax < Double.POSITIVE_INFINITY)) {
            throw new IllegalArgumentException("largest magnitude " + inputAmax);
        }
    }

    /** Scales of a run that multiplies with one scale for a tensor. */
    public LinearScales(double inputAmax, @Nullable Float inputScale, @Nullable Float weightQuantScale, String reason) {
        this(inputAmax, inputScale, weightQuantScale, reason, 0, null);
    }

    private static void requireNormal(String of, @Nullable Float scale) {
        if (scale != null && !(scale >= Float.MIN_NORMAL && scale < Float.POSITIVE_INFINITY)) {
            throw new IllegalArgumentException(of + " scale is not a positive normal number: " + scale);
        }
    }

    /** An observed input, and a weight whose scales follow from its values. */
    public static LinearScales ofInput(double amax, float scale) {
        return new LinearScales(amax, scale, null, "");
    }

    /** The same with scales of weights that follow from their values. */
    public LinearScales withWeightsOwn() {
        return new LinearScales(inputAmax, inputScale, null, reason);
    }

    /** Nothing observed. */
    public static LinearScales none(String reason) {
        return new LinearScales(0, null, null, reason);
    }
}
