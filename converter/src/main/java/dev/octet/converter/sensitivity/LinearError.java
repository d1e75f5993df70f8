package dev.octet.converter.sensitivity;

/**
 * Mean energies of a Linear's output for one row of its input, over its output channels: of the output itself, and of the errors that
 * quantisation puts in.
 *
 * @param signal {@code E |W x|^2}
 * @param ofWeight {@code E |(Q(W) - W) x|^2}
 * @param ofInput {@code E |Q(W) (Q(x) - x)|^2}; 0 where the input is left as it is
 */
public record LinearError(double signal, double ofWeight, double ofInput) {
    /** Noise over signal; 0 for an output that is always 0. */
    public double relative() {
        return signal == 0 ? 0 : (ofWeight + ofInput) / signal;
    }

    /** Signal to quantisation noise of the output in dB; infinite without an error. */
    public double sqnrDb() {
        return db(relative());
    }

    /** {@code -10 log10} of noise over signal. */
    public static double db(double relative) {
        return relative == 0 ? Double.POSITIVE_INFINITY : -10 * Math.log10(relative);
    }
}
