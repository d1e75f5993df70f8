package dev.octet.trainer.op.product;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.MatrixProducts.Call;
import java.lang.foreign.MemorySegment;

/**
 * A right operand that is one matrix: one product with all rows of the left, forward and backward. Otherwise a product for each
 * matrix of y. Many: threads take whole matrices of the result, and each adds up the products that belong to its matrix in their
 * order. Few: one after the other, each shared by all threads.
 */
final class MatMulCpu implements CpuKernel<MatMul> {
    /** From this many matrices on, threads take whole ones. */
    private static final int MANY = 4;

    /**
     * The same product for many matrices.
     *
     * @param leftOf for each product: number of its left matrix in {@code left}
     * @param resultOf for each product: number of the matrix it is added to
     */
    @SuppressWarnings("ArrayRecordComponent") // never compared
    private record Batch(
            Call call,
            CpuTensor left,
            int[] leftOf,
            CpuTensor right,
            int[] rightOf,
            CpuTensor result,
            int[] resultOf) {}

    @Override
    public void forward(MatMul op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor a = frame.input(0);
        CpuTensor b = frame.input(1);
        CpuTensor y = frame.output(0);
        if (op.isOneProduct()) {
            Call call = Call.of(false, false, rows(op), op.n(), op.k(), a.dtype(), y.dtype(), false);
            cpu.gemm().shared(call, a.bytes(), b.bytes(), y.bytes(), cpu.parallel());
            return;
        }
        Call call = Call.of(false, false, op.m(), op.n(), op.k(), a.dtype(), y.dtype(), false);
        run(new Batch(call, a, op.leftOf(), b, op.rightOf(), y, count(op)), cpu);
    }

    @Override
    public void backward(MatMul op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dy = frame.upstream(0);
        boolean one = op.isOneProduct();
        if (frame.wantsGradient(0)) {
            CpuTensor b = frame.input(1);
            CpuTensor da = frame.gradient(0);
            int m = one ? rows(op) : op.m();
            Call call = Call.of(false, true, m, op.k(), op.n(), dy.dtype(), da.dtype(), frame.accumulates(0));
            if (one) {
                cpu.gemm().shared(call, dy.bytes(), b.bytes(), da.bytes(), cpu.parallel());
            } else {
                run(new Batch(call, dy, count(op), b, op.rightOf(), da, op.leftOf()), cpu);
            }
        }
        if (frame.wantsGradient(1)) {
            CpuTensor a = frame.input(0);
            CpuTensor db = frame.gradient(1);
            int m = one ? rows(op) : op.m();
            Call call = Call.of(true, false, op.k(), op.n(), m, dy.dtype(), db.dtype(), frame.accumulates(1));
            if (one) {
                cpu.gemm().shared(call, a.bytes(), dy.bytes(), db.bytes(), cpu.parallel());
            } else {
                run(new Batch(call, a, op.leftOf(), dy, count(op), db, op.rightOf()), cpu);
            }
        }
    }

    /** Rows of a, over all its matrices. */
    private static int rows(MatMul op) {
        return Math.multiplyExact(op.batches(), op.m());
    }

    private static int[] count(MatMul op) {
        int[] numbers = new int[op.batches()];
        for (int t = 0; t < numbers.length; t++) {
            numbers[t] = t;
        }
        return numbers;
    }

    private static void run(Batch batch, CpuContext cpu) {
        Call call = batch.call();
        int results = Math.toIntExact(batch.result().count() / Math.max(1, (long) call.m() * call.n()));
        if (results >= MANY) {
            int[][] products = productsOf(batch.resultOf(), results);
            cpu.parallel().pieces(results, r -> {
                for (int p = 0; p < products[r].length; p++) {
                    one(batch, products[r][p], p > 0, cpu, false);
                }
            });
            return;
        }
        boolean[] begun = new boolean[results];
        for (int t = 0; t < batch.resultOf().length; t++) {
            one(batch, t, begun[batch.resultOf()[t]], cpu, true);
            begun[batch.resultOf()[t]] = true;
        }
    }

    /** For each result the products that are added to it, in order. */
    private static int[][] productsOf(int[] resultOf, int results) {
        int[] counts = new int[results];
        for (int r : resultOf) {
            counts[r]++;
        }
        int[][] products = new int[results][];
        for (int r = 0; r < results; r++) {
            products[r] = new int[counts[r]];
        }
        for (int t = resultOf.length - 1; t >= 0; t--) {
            products[resultOf[t]][--counts[resultOf[t]]] = t;
        }
        return products;
    }

    private static void one(Batch batch, int t, boolean more, CpuContext cpu, boolean shared) {
        Call c = batch.call();
        Call call = more && !c.accumulate()
                ? new Call(
                        c.transposeA(),
                        c.transposeB(),
                        c.m(),
                        c.n(),
                        c.k(),
                        c.lda(),
                        c.ldb(),
                        c.ldc(),
                        c.operands(),
                        c.result(),
                        true)
                : c;
        MemorySegment left = matrix(batch.left(), batch.leftOf()[t], (long) c.m() * c.k());
        MemorySegment right = matrix(batch.right(), batch.rightOf()[t], (long) c.k() * c.n());
        MemorySegment result = matrix(batch.result(), batch.resultOf()[t], (long) c.m() * c.n());
        if (shared) {
            cpu.gemm().shared(call, left, right, result, cpu.parallel());
        } else {
            cpu.gemm().single(call, left, right, result);
        }
    }

    private static MemorySegment matrix(CpuTensor tensor, int number, long elements) {
        long bytes = elements * tensor.dtype().bits() / 8;
        return tensor.bytes().asSlice(number * bytes, bytes);
    }
}
