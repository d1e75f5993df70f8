package dev.octet.quant.transform;

/**
 * The factors of SmoothQuant (mit-han-lab/smoothquant, smooth.py): channel j of the input is divided by s_j, column j of each weight that
 * reads it multiplied.
 */
public final class SmoothFactors {
    private static final double SMALLEST = 1e-5;

    private SmoothFactors() {}

    /**
     * {@code s_j = max(amax_x[j]^alpha / max(amax_w[j], 1e-5)^(1 - alpha), 1e-5)}.
     *
     * @param inputs largest magnitude of each channel of the input
     * @param weights largest magnitude of each column, over all weights that read the input
     * @return positive and finite
     */
    public static double[] of(float[] inputs, float[] weights, double alpha) {
        if (inputs.length != weights.length) {
            throw new IllegalArgumentException(inputs.length + " channels and " + weights.length + " columns");
        }
        double[] factors = new double[inputs.length];
        for (int i = 0; i < factors.length; i++) {
            double weight = Math.max(weights[i], SMALLEST);
            factors[i] = Math.max(Math.pow(inputs[i], alpha) / Math.pow(weight, 1 - alpha), SMALLEST);
        }
        return factors;
    }
}
