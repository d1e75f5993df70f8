package dev.octet.trainer.op.accumulate;

import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * {@code y = a + x}, element by element; y has a's type and may be a itself. Made by programs where a value's gradient has several
 * contributions.
 */
public record Accumulate(OperandType a, OperandType x) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Accumulate> ENTRY =
            OpEntry.of(Accumulate.class, new AccumulateReference(), new AccumulateCpu(), new AccumulateCuda());

    public Accumulate {
        if (!a.shape().equals(x.shape())) {
            throw new IllegalArgumentException(a + " and " + x + " cannot be added");
        }
    }

    @Override
    public String type() {
        return "Accumulate";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(a);
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return false;
    }
}
