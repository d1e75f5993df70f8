package dev.octet.trainer.op.product;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * ONNX MatMul, as numpy's: products of the last two axes, the axes before broadcast against each other. An operand of one axis is a
 * row on the left, a column on the right, and that axis is missing in the result.
 *
 * @param a [batch..., m, k] or [k]
 * @param b [batch..., k, n] or [k]
 * @param y [batch..., m, n] without the axes that were made up
 * @param batches how many matrices y has
 */
public record MatMul(OperandType a, OperandType b, OperandType y, int batches, int m, int n, int k) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<MatMul> ENTRY = OpEntry.of(
                    MatMul.class, new MatMulReference(), new MatMulCpu(), new MatMulCuda())
            .onnx("MatMul", MatMul::read);

    /** Reads ONNX MatMul of any opset. */
    static MatMul read(OpSource source) {
        OperandType a = source.input(0);
        OperandType b = source.input(1);
        Operands.requireOneType(source, a, b);
        if (a.shape().rank() == 0 || b.shape().rank() == 0) {
            throw source.refusal("an operand is a scalar", "use Mul");
        }
        long[] left = left(a.shape());
        long[] right = right(b.shape());
        long m = left[left.length - 2];
        long k = left[left.length - 1];
        long n = right[right.length - 1];
        long[] batch = broadcast(left, right);
        if (right[right.length - 2] != k || batch == null) {
            throw source.refusal(a.shape() + " does not fit " + b.shape(), "check the model's shapes");
        }
        long[] dims = Arrays.copyOf(batch, batch.length + 2);
        int rank = batch.length;
        if (a.shape().rank() > 1) {
            dims[rank++] = m;
        }
        if (b.shape().rank() > 1) {
            dims[rank++] = n;
        }
        Shape y = Shape.of(Arrays.copyOf(dims, rank));
        return new MatMul(
                a,
                b,
                new OperandType(a.dtype(), y),
                Math.toIntExact(Shape.of(batch).elementCount()),
                Math.toIntExact(m),
                Math.toIntExact(n),
                Math.toIntExact(k));
    }

    private static long[] left(Shape shape) {
        return shape.rank() > 1 ? shape.toArray() : new long[] {1, shape.dim(0)};
    }

    private static long[] right(Shape shape) {
        return shape.rank() > 1 ? shape.toArray() : new long[] {shape.dim(0), 1};
    }

    private static long @Nullable [] broadcast(long[] left, long[] right) {
        int rank = Math.max(left.length, right.length) - 2;
        long[] batch = new long[rank];
        for (int i = 0; i < rank; i++) {
            long l = dim(left, rank - i);
            long r = dim(right, rank - i);
            if (l != r && l != 1 && r != 1) {
                return null;
            }
            batch[i] = l == 1 ? r : l;
        }
        return batch;
    }

    /** The {@code fromMatrix}-th dimension before the matrix, counted from 1; 1 where there is none. */
    private static long dim(long[] dims, int fromMatrix) {
        int at = dims.length - 2 - fromMatrix;
        return at < 0 ? 1 : dims[at];
    }

    /** Whether the right operand is one matrix, so that all matrices of the left are one product with it. */
    boolean isOneProduct() {
        return b.shape().rank() <= 2 || b.count() == (long) k * n;
    }

    /** For each matrix of y: the number of the matrix of a that is in it. */
    int[] leftOf() {
        return matrices(left(a.shape()));
    }

    /** For each matrix of y: the number of the matrix of b that is in it. */
    int[] rightOf() {
        return matrices(right(b.shape()));
    }

    private int[] matrices(long[] operand) {
        long[] left = left(a.shape());
        long[] right = right(b.shape());
        int rank = Math.max(left.length, right.length) - 2;
        int[] found = new int[batches];
        for (int t = 0; t < batches; t++) {
            int rest = t;
            int number = 0;
            int step = 1;
            for (int axis = 1; axis <= rank; axis++) {
                int size = (int) Math.max(dim(left, axis), dim(right, axis));
                int own = (int) dim(operand, axis);
                number += own == 1 ? 0 : rest % size * step;
                step *= own;
                rest /= size;
            }
            found[t] = number;
        }
        return found;
    }

    @Override
    public String type() {
        return "MatMul";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(y);
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return true;
    }

    @Override
    public boolean canAccumulate(int i) {
        return true;
    }
}
