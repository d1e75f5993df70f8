package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * One step of Adagrad (Duchi et al., JMLR 12, 2011) as torch computes it, t being the step's number from 1. It has no operator of its own: {@link CodedStep} does it in
 * every form, F32 included.
 *
 * <pre>
 * g = gradient · factor + weightDecay · p
 * sum += g²
 * p -= lr / (1 + (t - 1) lrDecay) · g / (√sum + eps)
 * </pre>
 *
 * @param p type of the parameter
 */
public record AdagradStep(OperandType p, double lrDecay, double eps, double weightDecay) implements ElementStep {
    @Override
    public String type() {
        return "Adagrad";
    }

    @Override
    public int buffers() {
        return 1;
    }

    private double rate(StepScalars s) {
        return s.lr() / (1 + (s.t() - 1) * lrDecay);
    }

    @Override
    public TileStep tile(StepScalars s) {
        float factor = (float) s.factor();
        float decay = (float) weightDecay;
        float rate = (float) -rate(s);
        float least = (float) eps;
        return (x, g, buffers, n) -> {
            float[] sum = buffers[0];
            for (int i = 0; i < n; i++) {
                float dx = g[i] * factor + decay * x[i];
                sum[i] = sum[i] + dx * dx;
                x[i] = x[i] + rate * dx / ((float) Math.sqrt(sum[i]) + least);
            }
        };
    }

    @Override
    public CudaRule cuda() {
        return new CudaRule(9, List.of(lrDecay, eps, 0.0), false, weightDecay);
    }

    @Override
    public ElementFormula formula(StepScalars s) {
        return x -> {
            double g = x[1] * s.factor() + weightDecay * x[0];
            x[2] += g * g;
            x[0] -= rate(s) * g / (Math.sqrt(x[2]) + eps);
        };
    }
}
