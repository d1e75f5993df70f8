package dev.octet.trainer.op.update;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * Σ g² over all elements, as F64: no gradient of F32 overflows there, so the sum is finite when and only when all elements are.
 *
 * @param g type of the gradient
 */
public record SquareSum(OperandType g) implements UpdateOp {
    /** Type of the sum. */
    public static final OperandType RESULT = new OperandType(DType.F64, Shape.SCALAR);

    /** Its row in the table of operators. */
    public static final OpEntry<SquareSum> ENTRY =
            UpdateOp.entry(SquareSum.class, UpdateReference::squareSum, new SquareSumCpu(), new SquareSumCuda());

    @Override
    public String type() {
        return "SquareSum";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(RESULT);
    }
}
