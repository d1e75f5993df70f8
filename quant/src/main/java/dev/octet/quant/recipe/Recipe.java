package dev.octet.quant.recipe;

/**
 * A named way to quantise Linears. Inference recipes state only the forward product; training recipes will add dgrad and wgrad
 * beside it.
 *
 * @param name what users type, e.g. {@code fp8}
 * @param summary one line for help and reports
 * @param fprop the forward product y = x W^T
 */
public record Recipe(String name, String summary, Gemm fprop) {
    /** Whether activations are quantised with scales that need calibration. */
    public boolean needsStatistics() {
        Operand input = fprop.input();
        return input != null && input.scaling() == Operand.Scaling.FROM_STATISTICS;
    }
}
