package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

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
        implements UpdateOp {
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
}
