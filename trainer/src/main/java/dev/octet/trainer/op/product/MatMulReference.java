package dev.octet.trainer.op.product;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import dev.octet.trainer.op.product.Loops.Matrix;
import java.util.Arrays;

/** da = dy·bᵀ, db = aᵀ·dy, added up over the matrices of y that one matrix of a or b is in. */
final class MatMulReference implements ReferenceKernel<MatMul> {
    @Override
    public void forward(MatMul op, Frame<double[]> frame) {
        Arrays.fill(frame.output(0), 0);
        int[] left = op.leftOf();
        int[] right = op.rightOf();
        for (int t = 0; t < op.batches(); t++) {
            Loops.add(
                    a(op, frame.input(0), left[t]),
                    b(op, frame.input(1), right[t]),
                    y(op, frame.output(0), t),
                    op.m(),
                    op.n(),
                    op.k());
        }
    }

    @Override
    public void backward(MatMul op, Frame<double[]> frame) {
        int[] left = op.leftOf();
        int[] right = op.rightOf();
        for (int t = 0; t < op.batches(); t++) {
            Matrix dy = y(op, frame.upstream(0), t);
            if (frame.wantsGradient(0)) {
                Matrix b = b(op, frame.input(1), right[t]);
                Loops.add(dy, b.transposed(), a(op, frame.gradient(0), left[t]), op.m(), op.k(), op.n());
            }
            if (frame.wantsGradient(1)) {
                Matrix a = a(op, frame.input(0), left[t]);
                Loops.add(a.transposed(), dy, b(op, frame.gradient(1), right[t]), op.k(), op.n(), op.m());
            }
        }
    }

    private static Matrix a(MatMul op, double[] values, int number) {
        return Matrix.of(values, number * op.m() * op.k(), op.k());
    }

    private static Matrix b(MatMul op, double[] values, int number) {
        return Matrix.of(values, number * op.k() * op.n(), op.n());
    }

    private static Matrix y(MatMul op, double[] values, int number) {
        return Matrix.of(values, number * op.m() * op.n(), op.n());
    }
}
