package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import java.util.function.IntToDoubleFunction;

/**
 * One step of Lion (Chen et al., arXiv:2302.06675, algorithm 2), with the order of operations of its authors' PyTorch version (google/automl, lion_pytorch.py):
 *
 * <pre>
 * g = gradient · factor
 * p = p · (1 - lr · weightDecay) - lr · sign(β₁ m + (1 - β₁) g)
 * m = β₂ m + (1 - β₂) g
 * </pre>
 *
 * <p>Inputs: p, gradient, then the scalars lr, t, factor, and whether the step is left out (1, then nothing changes), and m. Outputs: p and m, which lie where the
 * inputs do. The sign of 0 is 0.
 *
 * @param p type of the parameter
 * @param moment type of m
 */
public record LionStep(OperandType p, OperandType moment, double beta1, double beta2, double weightDecay)
        implements UpdateOp, ElementStep {
    /** Input that holds m. */
    static final int MOMENT = 6;

    /** Its row in the table of operators. */
    public static final OpEntry<LionStep> ENTRY =
            UpdateOp.entry(LionStep.class, UpdateReference::lion, new LionStepCpu(), new LionStepCuda());

    @Override
    public String type() {
        return "Lion";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(p, moment);
    }

    /** The scalars, read by the index of the input. */
    StepScalars scalars(IntToDoubleFunction read) {
        return new StepScalars(
                read.applyAsDouble(2), read.applyAsDouble(3), read.applyAsDouble(4), read.applyAsDouble(5) != 0);
    }

    @Override
    public int buffers() {
        return 1;
    }

    @Override
    public TileStep tile(StepScalars s) {
        float factor = (float) s.factor();
        float rate = (float) s.lr();
        float kept = (float) (1 - s.lr() * weightDecay);
        float keep1 = (float) beta1;
        float weight1 = (float) (1 - beta1);
        float keep2 = (float) beta2;
        float weight2 = (float) (1 - beta2);
        return (p1, g, buffers, n) -> {
            float[] m = buffers[0];
            for (int i = 0; i < n; i++) {
                float x = g[i] * factor;
                float direction = m[i] * keep1 + x * weight1;
                p1[i] = p1[i] * kept - rate * Math.signum(direction);
                m[i] = m[i] * keep2 + x * weight2;
            }
        };
    }

    @Override
    public CudaRule cuda() {
        return new CudaRule(6, List.of(beta1, beta2, 0.0), false, weightDecay);
    }

    @Override
    public ElementFormula formula(StepScalars s) {
        return x -> {
            double g = x[1] * s.factor();
            x[0] = x[0] * (1 - s.lr() * weightDecay) - s.lr() * Math.signum(beta1 * x[2] + (1 - beta1) * g);
            x[2] = beta2 * x[2] + (1 - beta2) * g;
        };
    }
}
