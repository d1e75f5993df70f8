package dev.octet.trainer.check;

/**
 * Difference between a computed tensor and the expected one.
 *
 * @param tensor its name in the file: {@code grad.encoder.weight}
 * @param error largest |computed - expected|, relative to {@code scale}; infinite when one of the two is not finite and they differ
 * @param scale largest |expected| of the tensor; for gradients at least a thousandth of the largest of all gradients
 * @param elements number of elements compared
 * @param worst row-major index of the element with the largest error
 * @param computed that element
 * @param expected that element
 */
public record GoldenDifference(
        String tensor, double error, double scale, long elements, long worst, double computed, double expected) {
    /** Compares element by element. */
    static GoldenDifference of(String tensor, double[] computed, double[] expected, double leastScale) {
        double scale = Math.max(leastScale, largest(expected));
        double error = 0;
        int worst = 0;
        for (int i = 0; i < expected.length; i++) {
            double e = relative(computed[i], expected[i], scale);
            if (e > error) {
                error = e;
                worst = i;
            }
        }
        boolean empty = expected.length == 0;
        return new GoldenDifference(
                tensor, error, scale, expected.length, worst, empty ? 0 : computed[worst], empty ? 0 : expected[worst]);
    }

    private static double relative(double computed, double expected, double scale) {
        if (Double.compare(computed, expected) == 0 || computed == expected) {
            return 0;
        }
        double distance = Math.abs(computed - expected);
        return Double.isNaN(distance) ? Double.POSITIVE_INFINITY : distance / Math.max(scale, Double.MIN_NORMAL);
    }

    /** Largest finite magnitude; 0 for an empty array. */
    static double largest(double[] x) {
        double largest = 0;
        for (double e : x) {
            largest = Math.max(largest, Double.isFinite(e) ? Math.abs(e) : 0);
        }
        return largest;
    }
}
