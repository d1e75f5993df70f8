package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import java.util.function.IntToDoubleFunction;

/**
 * One step of stochastic gradient descent as torch computes it, t being the step's number from 1:
 *
 * <pre>
 * g = gradient · factor + weightDecay · p
 * with momentum: b = g when t = 1, otherwise momentum · b + (1 - dampening) g;    g = b, or g + momentum · b with Nesterov
 * p -= lr · g
 * </pre>
 *
 * <p>Inputs: p, gradient, then the scalars lr, t, factor, and whether the step is left out (1, then nothing changes), and b when there is
 * momentum. Outputs: p and b, which lie where the inputs do.
 *
 * @param p type of the parameter
 * @param buffer type of b
 */
public record SgdStep(
        OperandType p, OperandType buffer, double momentum, double dampening, double weightDecay, boolean nesterov)
        implements UpdateOp, ElementStep {
    /** Input that holds b. */
    static final int BUFFER = 6;

    /** Its row in the table of operators. */
    public static final OpEntry<SgdStep> ENTRY =
            UpdateOp.entry(SgdStep.class, UpdateReference::sgd, new SgdStepCpu(), new SgdStepCuda());

    @Override
    public String type() {
        return "SGD";
    }

    /** Whether there is a b. */
    boolean hasBuffer() {
        return momentum != 0;
    }

    @Override
    public List<OperandType> outputs() {
        return hasBuffer() ? List.of(p, buffer) : List.of(p);
    }

    /** The scalars, read by the index of the input. */
    StepScalars scalars(IntToDoubleFunction read) {
        return new StepScalars(
                read.applyAsDouble(2), read.applyAsDouble(3), read.applyAsDouble(4), read.applyAsDouble(5) != 0);
    }

    @Override
    public int buffers() {
        return hasBuffer() ? 1 : 0;
    }

    @Override
    public TileStep tile(StepScalars s) {
        return new SgdTile(this, s);
    }

    @Override
    public CudaRule cuda() {
        return new CudaRule(4, List.of(momentum, dampening, 0.0), nesterov, weightDecay);
    }

    @Override
    public ElementFormula formula(StepScalars s) {
        return x -> {
            double g = x[1] * s.factor() + weightDecay * x[0];
            if (hasBuffer()) {
                x[2] = s.t() == 1 ? g : momentum * x[2] + (1 - dampening) * g;
                g = nesterov ? g + momentum * x[2] : x[2];
            }
            x[0] -= s.lr() * g;
        };
    }
}
