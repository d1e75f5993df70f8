package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * Whether a loss of this step was not finite, kept on the device: the update then changes nothing ({@link FiniteGradients}), and no host has to
 * look at the loss before it.
 *
 * <p>Inputs: the loss; 1 when one before it in the same step was not finite, otherwise 0. Output: the same with this one, which lies where
 * the second input does.
 *
 * @param loss one number
 */
public record LossCheck(OperandType loss) implements UpdateOp {
    /** Its row in the table of operators. */
    public static final OpEntry<LossCheck> ENTRY =
            UpdateOp.entry(LossCheck.class, UpdateReference::lossCheck, UpdateCpu::lossCheck, ChecksCuda::lossCheck);

    @Override
    public String type() {
        return "LossCheck";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(SCALAR);
    }
}
