package dev.octet.quant.calibrate;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.statistics.TensorStatistics;
import java.util.Locale;

/**
 * Chooses the clip of a tensor: the magnitude that maps to the largest number of the format, so that
 * {@code scale = clip / format.maxValue()}. What is larger saturates.
 *
 * <p>All calibrators look at finite elements only, and give a finite number from 0 to {@code amax}; it is 0 exactly when the tensor
 * has no finite element other than zero (then any scale will do).
 *
 * <p>For FP8 {@link Absmax} is the best start: a float format pays little for range, so cutting outliers off costs more than
 * the finer steps give back.
 */
public sealed interface Calibrator permits Absmax, Percentile, Mse, Entropy {
    /** How {@link #parse} may be called, for help and messages. */
    String SYNTAX = "absmax, percentile:P (for example percentile:99.99), mse, entropy";

    /**
     * The magnitude where codes of {@code type} saturate; 0 when there is nothing but zeros. Codes with a zero point spread from the least to
     * the greatest number seen, or to the clip where that is nearer to zero.
     */
    double clip(TensorStatistics statistics, QuantType type);

    /**
     * The magnitude that maps to {@code format.maxValue()}; 0 when there is nothing but zeros.
     *
     * @throws IllegalArgumentException for E8M0, which is a format for scales
     */
    default double clip(TensorStatistics statistics, Float8Format format) {
        return clip(
                statistics,
                QuantType.of(format).orElseThrow(() -> new IllegalArgumentException(format + " is for scales")));
    }

    /**
     * The best start for codes of a type: {@link Absmax} for floats; {@link Mse} for integers, whose steps are as wide everywhere, so that a few large
     * numbers cost all others.
     */
    static Calibrator usual(QuantType type) {
        return type.isInteger() ? new Mse() : new Absmax();
    }

    /** The text that {@link #parse} makes this calibrator from. */
    String text();

    /**
     * The calibrator that users call {@code text}.
     *
     * @throws InvalidOptionException when there is none
     */
    static Calibrator parse(String text) {
        String name = text.strip().toLowerCase(Locale.ROOT);
        if (name.startsWith("percentile:")) {
            return percentile(text, name.substring("percentile:".length()));
        }
        return switch (name) {
            case "absmax" -> new Absmax();
            case "mse" -> new Mse();
            case "entropy" -> new Entropy();
            default ->
                throw new InvalidOptionException(
                        "there is no calibrator '" + text + "'", "option --calibrator", "one of: " + SYNTAX);
        };
    }

    private static Calibrator percentile(String text, String number) {
        try {
            return new Percentile(Double.parseDouble(number));
        } catch (IllegalArgumentException e) { // not a number, or one out of range
            throw new InvalidOptionException(
                    "'" + text + "' names no percentile",
                    "option --calibrator",
                    "a number above 0 and up to 100, for example percentile:99.99",
                    e);
        }
    }
}
