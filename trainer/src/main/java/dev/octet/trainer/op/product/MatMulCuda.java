package dev.octet.trainer.op.product;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.stream.IntStream;

/**
 * A right operand that is one matrix: one product with all rows of the left. Otherwise products of matrices, as many in one batch as lie at
 * equal steps in all three operands; those that are added to one matrix of a result, one behind the other.
 */
final class MatMulCuda implements CudaKernel<MatMul> {
    private final PaddingRule rule;

    MatMulCuda() {
        this(PaddingRule.STANDARD);
    }

    MatMulCuda(PaddingRule rule) {
        this.rule = rule;
    }

    /**
     * The same product for many matrices.
     *
     * @param leftOf for each product: number of its left matrix in {@code left}
     * @param resultOf for each product: number of the matrix it is added to
     */
    @SuppressWarnings("ArrayRecordComponent") // never compared
    private record Batch(
            boolean transposeA,
            boolean transposeB,
            int m,
            int n,
            int k,
            CudaTensor left,
            int[] leftOf,
            CudaTensor right,
            int[] rightOf,
            CudaTensor result,
            int[] resultOf,
            boolean accumulate) {
        void write(CudaProducts products) {
            boolean[] begun = new boolean[resultOf.length];
            for (int t = 0; t < resultOf.length; ) {
                boolean add = accumulate || begun[resultOf[t]];
                int end = t + 1;
                while (end < resultOf.length && continues(t, end) && begun[resultOf[end]] == begun[resultOf[t]]) {
                    end++;
                }
                for (int i = t; i < end; i++) {
                    begun[resultOf[i]] = true;
                }
                write(t, end - t, add, products);
                t = end;
            }
        }

        /** Whether product {@code at} lies as far behind the one before it as the second of the run behind the first, and has a matrix of its own. */
        private boolean continues(int start, int at) {
            return resultOf[at] - resultOf[at - 1] == 1
                    && step(leftOf, at) == step(leftOf, start + 1)
                    && step(rightOf, at) == step(rightOf, start + 1)
                    && step(leftOf, at) >= 0
                    && step(rightOf, at) >= 0;
        }

        private static int step(int[] numbers, int at) {
            return numbers[at] - numbers[at - 1];
        }

        private void write(int start, int count, boolean add, CudaProducts products) {
            Matrix a = matrix(left, leftOf, start, count, (long) m * k, transposeA ? m : k);
            Matrix b = matrix(right, rightOf, start, count, (long) k * n, transposeB ? k : n);
            Matrix d = matrix(result, resultOf, start, count, (long) m * n, n);
            products.write(CudaProduct.of(transposeA, transposeB, m, n, k, a, b, d)
                    .accumulating(add)
                    .batched(count));
        }

        private static Matrix matrix(CudaTensor t, int[] numbers, int start, int count, long elements, long leading) {
            long address = t.address() + numbers[start] * elements * t.dtype().bits() / 8;
            long stride = count > 1 ? step(numbers, start + 1) * elements : 0;
            return new Matrix(address, t.dtype(), leading, stride);
        }
    }

    @Override
    public void forward(MatMul op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor a = frame.input(0);
        CudaTensor b = frame.input(1);
        CudaTensor y = frame.output(0);
        CudaProducts products = new CudaProducts(cuda, rule);
        if (op.isOneProduct()) {
            products.write(false, false, rows(op), op.n(), op.k(), a, b, y, false);
        } else {
            new Batch(false, false, op.m(), op.n(), op.k(), a, op.leftOf(), b, op.rightOf(), y, count(op), false)
                    .write(products);
        }
    }

    @Override
    public void backward(MatMul op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        boolean one = op.isOneProduct();
        CudaProducts products = new CudaProducts(cuda, rule);
        if (one) {
            products.keeping(dy);
        }
        if (frame.wantsGradient(0)) {
            CudaTensor b = frame.input(1);
            CudaTensor da = frame.gradient(0);
            boolean add = frame.accumulates(0);
            if (one) {
                products.write(false, true, rows(op), op.k(), op.n(), dy, b, da, add);
            } else {
                new Batch(false, true, op.m(), op.k(), op.n(), dy, count(op), b, op.rightOf(), da, op.leftOf(), add)
                        .write(products);
            }
        }
        if (frame.wantsGradient(1)) {
            CudaTensor a = frame.input(0);
            CudaTensor db = frame.gradient(1);
            boolean add = frame.accumulates(1);
            if (one) {
                products.write(true, false, op.k(), op.n(), rows(op), a, dy, db, add);
            } else {
                new Batch(true, false, op.k(), op.n(), op.m(), a, op.leftOf(), dy, count(op), db, op.rightOf(), add)
                        .write(products);
            }
        }
    }

    /** Rows of a, over all its matrices. */
    private static int rows(MatMul op) {
        return Math.multiplyExact(op.batches(), op.m());
    }

    private static int[] count(MatMul op) {
        return IntStream.range(0, op.batches()).toArray();
    }
}
