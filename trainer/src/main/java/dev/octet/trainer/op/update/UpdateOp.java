package dev.octet.trainer.op.update;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.OperandType;

/** An operator without a backward half. */
public sealed interface UpdateOp extends ForwardOp permits SquareSum, LossCheck, FiniteGradients, AdamStep, SgdStep {
    /** One F32 number. */
    OperandType SCALAR = new OperandType(DType.F32, Shape.SCALAR);
}
