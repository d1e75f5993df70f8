package dev.octet.trainer.replay;

/**
 * How far a vector is from its reference: a gradient, or the update of a parameter.
 *
 * @param error {@code |x - r| / |r|}; infinite where x is not finite, or r is zero and x is not
 * @param cosine of the angle between x and r, -1 to 1; 1 where both are zero, otherwise 0 where one is
 * @param ratio {@code |x| / |r|}, of the norms; 0 where x is not finite
 * @param elements how many were compared
 */
public record Difference(double error, double cosine, double ratio, long elements) {
    /** Of a vector that equals its reference. */
    public static Difference none(long elements) {
        return new Difference(0, 1, 1, elements);
    }

    /**
     * Compares, in F64.
     *
     * @param x as many elements as {@code reference}
     */
    public static Difference of(float[] x, float[] reference) {
        double xx = 0;
        double rr = 0;
        double xr = 0;
        double dd = 0;
        for (int i = 0; i < x.length; i++) {
            double d = (double) x[i] - reference[i];
            xx += (double) x[i] * x[i];
            rr += (double) reference[i] * reference[i];
            xr += (double) x[i] * reference[i];
            dd += d * d;
        }
        if (!Double.isFinite(xx) || !Double.isFinite(dd)) {
            return new Difference(Double.POSITIVE_INFINITY, 0, 0, x.length);
        }
        if (rr == 0 || xx == 0) {
            boolean same = rr == 0 && xx == 0;
            double error = same ? 0 : rr == 0 ? Double.POSITIVE_INFINITY : 1;
            return new Difference(error, same ? 1 : 0, same ? 1 : rr == 0 ? Double.POSITIVE_INFINITY : 0, x.length);
        }
        double cosine = Math.max(-1, Math.min(1, xr / Math.sqrt(xx * rr)));
        return new Difference(Math.sqrt(dd / rr), cosine, Math.sqrt(xx / rr), x.length);
    }

    /** The factor by which x is too long along the reference, {@code x·r / r·r}: 1 for errors that do not add up. */
    public double gain() {
        return cosine * ratio;
    }
}
