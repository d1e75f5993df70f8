package dev.octet.trainer.op.gather;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.state.StateForm;
import java.util.List;
import java.util.function.IntFunction;

/**
 * Rows of a table that is kept in some form, as F32: embeddings. Only rows that are looked up are decoded; the table itself is in memory as codes alone.
 *
 * <p>Inputs: the first part of the table ({@link StateForm#parts}), the indices, then its other parts. The gradient goes to the first part as that of {@link Gather} goes to
 * its table, in the type in which gradients are summed; it is written on its own, so that sums have the order they have with a decoded table.
 *
 * @param rows what is looked up, in a table [size, length of a row] of F32
 * @param form how the table is kept: with one scale at most
 */
public record GatherState(Gather rows, StateForm form) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<GatherState> ENTRY =
            OpEntry.of(GatherState.class, new GatherStateReference(), new GatherStateCpu(), new GatherStateCuda());

    public GatherState {
        if (rows.axis() != 0 || rows.x().dtype() != DType.F32 || form instanceof StateForm.Blocked) {
            throw new IllegalArgumentException("no rows of " + rows.x() + " kept as " + form.text());
        }
    }

    /** The parts of the table, as {@link StateForm#parts} counts them, among the operands of a step. */
    static <T> IntFunction<T> parts(IntFunction<T> operands) {
        return part -> operands.apply(part == 0 ? 0 : part + 1);
    }

    @Override
    public String type() {
        return "GatherState";
    }

    @Override
    public List<OperandType> outputs() {
        return rows.outputs();
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == 0;
    }

    @Override
    public OperandType gradientType(int i, OperandType x) {
        return i == 0 ? rows.x() : x;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return i == 1;
    }
}
