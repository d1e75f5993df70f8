package dev.octet.trainer.op.stored;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * {@code y = x·w (+ b)} over the last axis of x with a frozen w that stays as it is stored. Elements of w are rounded to the type of x when they are decoded; sums
 * are F32. Backward gives the gradients of x and b; x is not kept for it.
 *
 * <p>Inputs: {@link #X}, {@link #BIAS}, then the operands of w.
 *
 * @param x [..., in] in F32, BF16 or F16
 * @param w [in, out], or [out, in] with {@code transB}
 * @param y [..., out], of the type of x
 */
public record StoredLinear(OperandType x, StoredMatrix w, boolean hasBias, boolean transB, OperandType y)
        implements Op {
    public static final int X = 0;
    public static final int BIAS = 1;
    /** The first operand of w. */
    public static final int W = 2;

    /** Its row in the table of operators. */
    public static final OpEntry<StoredLinear> ENTRY =
            OpEntry.of(StoredLinear.class, new StoredLinearReference(), new StoredLinearCpu(), new StoredLinearCuda());

    /**
     * The operator for an input.
     *
     * @throws IllegalArgumentException when x does not fit w
     */
    public static StoredLinear of(OperandType x, StoredMatrix w, boolean hasBias, boolean transB) {
        int rank = x.shape().rank();
        if (rank < 1 || x.shape().dim(rank - 1) != (transB ? w.cols() : w.rows())) {
            throw new IllegalArgumentException("x is " + x + ", w is " + w.shape() + (transB ? ", transposed" : ""));
        }
        long[] dims = x.shape().toArray();
        dims[rank - 1] = transB ? w.rows() : w.cols();
        return new StoredLinear(x, w, hasBias, transB, new OperandType(x.dtype(), Shape.of(dims)));
    }

    /** Length of vectors of x. */
    public int in() {
        return transB ? w.cols() : w.rows();
    }

    /** Length of vectors of y. */
    public int out() {
        return transB ? w.rows() : w.cols();
    }

    /** Number of vectors. */
    public int rows() {
        return in() == 0 ? 0 : Math.toIntExact(x.count() / in());
    }

    @Override
    public String type() {
        return "StoredLinear";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(y);
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == X || i == BIAS;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return i >= W;
    }

    @Override
    public boolean canAccumulate(int i) {
        return true;
    }
}
