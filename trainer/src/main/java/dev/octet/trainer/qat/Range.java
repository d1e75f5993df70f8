package dev.octet.trainer.qat;

/**
 * What is known of a tensor, or of a block of one, before training.
 *
 * @param count elements seen
 * @param min least element
 * @param max greatest element
 * @param sum Σ x
 * @param magnitudes Σ |x|
 * @param squares Σ x²
 */
record Range(long count, float min, float max, double sum, double magnitudes, double squares) {
    /** Nothing. */
    static final Range NONE = new Range(0, 0, 0, 0, 0, 0);

    /** Of some elements. */
    static Range of(float[] x) {
        float min = Float.POSITIVE_INFINITY;
        float max = Float.NEGATIVE_INFINITY;
        double sum = 0;
        double magnitudes = 0;
        double squares = 0;
        for (float v : x) {
            min = Math.min(min, v);
            max = Math.max(max, v);
            sum += v;
            magnitudes += Math.abs(v);
            squares += (double) v * v;
        }
        return x.length == 0 ? NONE : new Range(x.length, min, max, sum, magnitudes, squares);
    }

    /** With one more element. */
    Range with(float x) {
        return and(new Range(1, x, x, x, Math.abs(x), (double) x * x));
    }

    /** Of both. */
    Range and(Range other) {
        if (count == 0 || other.count == 0) {
            return count == 0 ? other : this;
        }
        return new Range(
                count + other.count,
                Math.min(min, other.min),
                Math.max(max, other.max),
                sum + other.sum,
                magnitudes + other.magnitudes,
                squares + other.squares);
    }

    float amax() {
        return Math.max(Math.abs(min), Math.abs(max));
    }

    double meanMagnitude() {
        return count == 0 ? 0 : magnitudes / count;
    }

    /** The larger of |mean - 3 deviations| and |mean + 3 deviations|. */
    double threeDeviations() {
        double mean = count == 0 ? 0 : sum / count;
        double variance = count == 0 ? 0 : squares / count - mean * mean;
        return Math.abs(mean) + 3 * Math.sqrt(Math.max(0, variance));
    }
}
