package dev.octet.trainer.op.experts;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;

/**
 * The rows of one expert among rows that are sorted by expert.
 *
 * @param first row
 * @param count of rows; 0 for an expert that no token reached
 */
public record ExpertGroup(long first, int count) {
    /** That of an expert, by the offsets of {@link ExpertDispatch}. */
    public static ExpertGroup of(CpuTensor offsets, int expert) {
        long first = offsets.bytes().get(Tensor.I64_LE, 8L * expert);
        return new ExpertGroup(first, Math.toIntExact(offsets.bytes().get(Tensor.I64_LE, 8L * (expert + 1)) - first));
    }

    /** These rows of a matrix with so many columns, in place. */
    public CpuTensor rowsOf(CpuTensor matrix, int columns) {
        OperandType type = new OperandType(matrix.dtype(), Shape.of(count, columns));
        long from = first * columns * matrix.dtype().bits() / 8;
        return new CpuTensor(type, matrix.bytes().asSlice(from, type.byteSize()));
    }
}
