package dev.octet.trainer.op.states;

import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * Copies of small tensors: output i is input i. Made by programs that read states again after another step has changed them.
 *
 * @param states types of the inputs, at least one
 */
public record CopyStates(List<OperandType> states) implements ForwardOp {
    /** Its row in the table of operators. */
    public static final OpEntry<CopyStates> ENTRY =
            OpEntry.of(CopyStates.class, new CopyStatesReference(), new CopyStatesCpu(), new CopyStatesCuda());

    public CopyStates {
        states = List.copyOf(states);
    }

    @Override
    public String type() {
        return "CopyStates";
    }

    @Override
    public List<OperandType> outputs() {
        return states;
    }

    /** As {@code CopyStates[12]}: the tensors follow as operands. */
    @Override
    public String toString() {
        return "CopyStates[" + states.size() + "]";
    }
}
