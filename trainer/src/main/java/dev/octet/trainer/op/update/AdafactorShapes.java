package dev.octet.trainer.op.update;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OperandType;

/**
 * A parameter as Adafactor sees it: a batch of matrices over its last two axes, or a vector.
 *
 * @param batch number of matrices
 * @param rows of a matrix
 * @param columns of a matrix
 */
record AdafactorShapes(long batch, long rows, long columns) {
    static AdafactorShapes of(OperandType p) {
        Shape shape = p.shape();
        long rows = shape.dim(-2);
        long columns = shape.dim(-1);
        return new AdafactorShapes(p.count() == 0 ? 0 : p.count() / (rows * columns), rows, columns);
    }
}
