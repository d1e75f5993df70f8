package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * Looks at all gradients together, once per optimizer step.
 *
 * <p>Inputs: {@code unscale} (what gradients are multiplied by to take the loss scale out), {@code step} (steps that counted so far),
 * whether a loss was not finite ({@link LossCheck}), then the {@link SquareSum} of each gradient. Outputs: the norm √Σ · unscale; the factor each gradient is to be multiplied by, which is
 * unscale · min(1, maxNorm / (norm + 1e-6)) as in torch's {@code clip_grad_norm_}; 1 when the norm or a loss is not finite and the step
 * must not count, otherwise 0; {@code step}, one more when it counts. With such a loss the norm is NaN.
 *
 * @param gradients how many
 * @param maxNorm infinity for no clipping
 */
public record FiniteGradients(int gradients, double maxNorm) implements UpdateOp {
    /** Output that holds the norm. */
    public static final int NORM = 0;
    /** Output that holds the factor. */
    public static final int FACTOR = 1;
    /** Output that holds whether the step is left out. */
    public static final int NON_FINITE = 2;
    /** Output that holds the number of steps that counted. */
    public static final int STEP = 3;

    /** Number of the first input that is a sum of squares. */
    static final int SQUARES = 3;

    /** torch's, added to the norm it divides by. */
    private static final double EPSILON = 1e-6;

    /** Its row in the table of operators. */
    public static final OpEntry<FiniteGradients> ENTRY = UpdateOp.entry(
            FiniteGradients.class,
            UpdateReference::finiteGradients,
            UpdateCpu::finiteGradients,
            ChecksCuda::finiteGradients);

    @Override
    public String type() {
        return "GradientCheck";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(SCALAR, SCALAR, SCALAR, SCALAR);
    }

    /** All outputs, from the inputs; both twins use it. */
    double[] outputs(double unscale, double step, double badLoss, double squares) {
        double norm = badLoss != 0 ? Double.NaN : Math.sqrt(squares) * unscale;
        if (!Double.isFinite(norm)) {
            return new double[] {norm, 0, 1, step};
        }
        double clip = Math.min(1, maxNorm / (norm + EPSILON));
        return new double[] {norm, unscale * clip, 0, step + 1};
    }
}
