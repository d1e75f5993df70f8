package dev.octet.trainer.op.copy;

import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import java.util.List;

/** Boxes of elements go from inputs to outputs; no two overlap. What no box reaches is {@link #fill}; it has no gradient. */
public interface StridedCopyOp extends Op {
    /** The row of such an operator in the table of operators, without names. */
    static <O extends StridedCopyOp> OpEntry<O> entry(Class<O> op) {
        return OpEntry.of(op, new StridedCopyReference<>(), new StridedCopyCpu<>(), new StridedCopyCuda<>());
    }

    /** What is moved. */
    List<StridedCopy> boxes();

    /** What outputs are where no box reaches. */
    default double fill() {
        return 0;
    }

    @Override
    default boolean backwardReadsInput(int i) {
        return false;
    }
}
