package dev.octet.trainer.op.state;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.state.StateForm;
import java.util.List;

/**
 * The numbers of a tensor that is kept in some form, rounded to nearest even where the target is narrower. Inputs: its parts ({@link StateForm#parts}). The gradient goes
 * to the first of them as it is, in the type in which gradients are summed.
 *
 * @param form how the tensor is kept
 * @param tensor its shape
 * @param to F32, BF16 or F16
 */
public record DecodeState(StateForm form, OperandType tensor, DType to) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<DecodeState> ENTRY =
            OpEntry.of(DecodeState.class, new DecodeStateReference(), new DecodeStateCpu(), new DecodeStateCuda());

    @Override
    public String type() {
        return "DecodeState";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(tensor.as(to));
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == 0;
    }

    @Override
    public OperandType gradientType(int i, OperandType x) {
        return i == 0 ? tensor.as(DType.F32) : x;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return false;
    }

    @Override
    public boolean canAccumulate(int i) {
        return true;
    }
}
