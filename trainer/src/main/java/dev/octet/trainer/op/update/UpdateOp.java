package dev.octet.trainer.op.update;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;

/** An operator without a backward half. */
public sealed interface UpdateOp extends Op permits SquareSum, GradientCheck, AdamStep, SgdStep {
    /** One F32 number. */
    OperandType SCALAR = new OperandType(DType.F32, Shape.SCALAR);

    @Override
    default boolean isDifferentiable(int i) {
        return false;
    }

    @Override
    default boolean backwardReadsInput(int i) {
        return false;
    }

    @Override
    default boolean backwardReadsOutput(int j) {
        return false;
    }
}
