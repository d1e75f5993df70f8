package dev.octet.converter.checkpoint;

import java.io.Serializable;

/**
 * What the number format of a merged weight leaves of what adapters add. W is the weight of the base, dequantised; D what the adapters add to
 * it, so that W + D is the exact sum; Q(W + D) what a reader of the file sees.
 *
 * @param weight own name
 * @param form how it is stored, in words
 * @param elements of the weight
 * @param deltaNorm ||D||
 * @param errorNorm ||Q(W + D) - (W + D)||
 * @param kept &lt;Q(W + D) - W, D&gt; / ||D||^2: 1 when all of D survives, 0 when none; NaN where D is zero
 * @param changed whether a reader sees any number that differs from the base's
 */
public record MergeMeasure(
        String weight, String form, long elements, double deltaNorm, double errorNorm, double kept, boolean changed)
        implements Serializable {
    /** ||Q(W + D) - (W + D)|| / ||D||; NaN where D is zero. */
    public double error() {
        return deltaNorm == 0 ? Double.NaN : errorNorm / deltaNorm;
    }

    /** Sums over the elements of a tile. */
    record Sums(double delta, double error, double along, boolean changed) {
        static final Sums ZERO = new Sums(0, 0, 0, false);

        Sums plus(Sums other) {
            return new Sums(delta + other.delta, error + other.error, along + other.along, changed || other.changed);
        }

        MergeMeasure of(String weight, String form, long elements) {
            return new MergeMeasure(
                    weight,
                    form,
                    elements,
                    Math.sqrt(delta),
                    Math.sqrt(error),
                    delta == 0 ? Double.NaN : along / delta,
                    changed);
        }
    }
}
