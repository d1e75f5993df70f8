package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.state.StateForm;
import java.util.List;

/**
 * {@link SquareSum} of a gradient that is kept in some form. Inputs: its parts.
 *
 * @param g shape of the gradient
 * @param form how it is kept
 */
public record CodedSquareSum(OperandType g, StateForm form) implements UpdateOp {
    /** Its row in the table of operators. */
    public static final OpEntry<CodedSquareSum> ENTRY = UpdateOp.entry(
            CodedSquareSum.class, CodedReference::squareSum, new CodedSquareSumCpu(), new CodedSquareSumCuda());

    @Override
    public String type() {
        return "SquareSum";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(SquareSum.RESULT);
    }
}
