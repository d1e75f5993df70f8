package dev.octet.trainer.qat;

/**
 * What is known of a tensor, or of a block of one, before training.
 *
 * @param count elements seen
 * @param min least element
 * @param max greatest element
 * @param magnitudes Σ |x|
 */
record Range(long count, float min, float max, double magnitudes) {
    /** Nothing. */
    static final Range NONE = new Range(0, 0, 0, 0);

    /** Of some elements. */
    static Range of(float[] x) {
        float min = Float.POSITIVE_INFINITY;
        float max = Float.NEGATIVE_INFINITY;
        double sum = 0;
        for (float v : x) {
            min = Math.min(min, v);
            max = Math.max(max, v);
            sum += Math.abs(v);
        }
        return x.length == 0 ? NONE : new Range(x.length, min, max, sum);
    }

    /** With one more element. */
    Range with(float x) {
        return and(new Range(1, x, x, Math.abs(x)));
    }

    /** Of both. */
    Range and(Range other) {
        if (count == 0 || other.count == 0) {
            return count == 0 ? other : this;
        }
        return new Range(
                count + other.count, Math.min(min, other.min), Math.max(max, other.max), magnitudes + other.magnitudes);
    }

    float amax() {
        return Math.max(Math.abs(min), Math.abs(max));
    }

    double meanMagnitude() {
        return count == 0 ? 0 : magnitudes / count;
    }
}
