package dev.octet.trainer.op.product;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import dev.octet.trainer.op.product.Loops.Matrix;

/** d op(a) = alpha·dy·op(b)ᵀ, d op(b) = alpha·op(a)ᵀ·dy, dc = beta·dy added up over what c was broadcast along. */
final class GemmReference implements ReferenceKernel<Gemm> {
    @Override
    public void forward(Gemm op, Frame<double[]> frame) {
        double[] y = frame.output(0);
        for (int i = 0; i < op.m(); i++) {
            for (int j = 0; j < op.n(); j++) {
                y[i * op.n() + j] = op.c() == null ? 0 : op.beta() * frame.input(2)[atC(op, i, j)];
            }
        }
        Loops.add(
                left(op, frame.input(0)),
                right(op, frame.input(1)),
                Matrix.of(y, op.n()),
                op.m(),
                op.n(),
                op.k(),
                op.alpha());
    }

    @Override
    public void backward(Gemm op, Frame<double[]> frame) {
        Matrix dy = Matrix.of(frame.upstream(0), op.n());
        if (frame.wantsGradient(0)) {
            Matrix bt = right(op, frame.input(1)).transposed();
            Loops.add(dy, bt, left(op, frame.gradient(0)), op.m(), op.k(), op.n(), op.alpha());
        }
        if (frame.wantsGradient(1)) {
            Matrix at = left(op, frame.input(0)).transposed();
            Loops.add(at, dy, right(op, frame.gradient(1)), op.k(), op.n(), op.m(), op.alpha());
        }
        if (op.c() != null && frame.wantsGradient(2)) {
            for (int i = 0; i < op.m(); i++) {
                for (int j = 0; j < op.n(); j++) {
                    frame.gradient(2)[atC(op, i, j)] += op.beta() * frame.upstream(0)[i * op.n() + j];
                }
            }
        }
    }

    /** [m, k], however it lies. */
    private static Matrix left(Gemm op, double[] a) {
        return Matrix.of(a, op.transA() ? op.m() : op.k()).transposed(op.transA());
    }

    /** [k, n], however it lies. */
    private static Matrix right(Gemm op, double[] b) {
        return Matrix.of(b, op.transB() ? op.k() : op.n()).transposed(op.transB());
    }

    private static int atC(Gemm op, int i, int j) {
        return (op.rowsOfC() == 1 ? 0 : i * op.columnsOfC()) + (op.columnsOfC() == 1 ? 0 : j);
    }
}
