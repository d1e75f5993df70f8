package dev.octet.trainer.op.product;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import dev.octet.trainer.op.product.Loops.Matrix;

/** dx = dy·wᵀ, dw = xᵀ·dy, db = sum of the rows of dy. */
final class LinearReference implements ReferenceKernel<Linear> {
    @Override
    public void forward(Linear op, Frame<double[]> frame) {
        double[] y = frame.output(0);
        for (int r = 0; r < op.rows(); r++) {
            for (int j = 0; j < op.out(); j++) {
                y[r * op.out() + j] = op.hasBias() ? frame.input(2)[j] : 0;
            }
        }
        Matrix x = Matrix.of(frame.input(0), op.in());
        Loops.add(x, weight(op, frame.input(1)), Matrix.of(y, op.out()), op.rows(), op.out(), op.in());
    }

    @Override
    public void backward(Linear op, Frame<double[]> frame) {
        Matrix dy = Matrix.of(frame.upstream(0), op.out());
        if (frame.wantsGradient(0)) {
            Matrix wt = weight(op, frame.input(1)).transposed();
            Loops.add(dy, wt, Matrix.of(frame.gradient(0), op.in()), op.rows(), op.in(), op.out());
        }
        if (frame.wantsGradient(1)) {
            Matrix xt = Matrix.of(frame.input(0), op.in()).transposed();
            Loops.add(xt, dy, weight(op, frame.gradient(1)), op.in(), op.out(), op.rows());
        }
        if (op.hasBias() && frame.wantsGradient(2)) {
            double[] db = frame.gradient(2);
            for (int r = 0; r < op.rows(); r++) {
                for (int j = 0; j < op.out(); j++) {
                    db[j] += frame.upstream(0)[r * op.out() + j];
                }
            }
        }
    }

    /** [in, out], however it lies. */
    private static Matrix weight(Linear op, double[] w) {
        return Matrix.of(w, op.transB() ? op.in() : op.out()).transposed(op.transB());
    }
}
