package dev.octet.trainer.op.stored;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import dev.octet.trainer.op.product.Loops;
import dev.octet.trainer.op.product.Loops.Matrix;

/** dx = dy·wᵀ, db = sum of the rows of dy; w as {@link Decoding} says. */
final class StoredLinearReference implements ReferenceKernel<StoredLinear> {
    @Override
    public void forward(StoredLinear op, Frame<double[]> frame) {
        double[] y = frame.output(0);
        for (int i = 0; i < y.length; i++) {
            y[i] = op.hasBias() ? frame.input(StoredLinear.BIAS)[i % op.out()] : 0;
        }
        Matrix x = Matrix.of(frame.input(StoredLinear.X), op.in());
        Loops.add(x, weight(op, frame), Matrix.of(y, op.out()), op.rows(), op.out(), op.in());
    }

    @Override
    public void backward(StoredLinear op, Frame<double[]> frame) {
        double[] dy = frame.upstream(0);
        if (frame.wantsGradient(StoredLinear.X)) {
            Matrix dx = Matrix.of(frame.gradient(StoredLinear.X), op.in());
            Loops.add(Matrix.of(dy, op.out()), weight(op, frame).transposed(), dx, op.rows(), op.in(), op.out());
        }
        if (op.hasBias() && frame.wantsGradient(StoredLinear.BIAS)) {
            double[] db = frame.gradient(StoredLinear.BIAS);
            for (int i = 0; i < dy.length; i++) {
                db[i % op.out()] += dy[i];
            }
        }
    }

    /** [in, out], however it lies. */
    private static Matrix weight(StoredLinear op, Frame<double[]> frame) {
        double[] elements =
                new Decoding(op.w(), StoredLinear.W).elements(frame, op.x().dtype());
        return Matrix.of(elements, op.w().cols()).transposed(op.transB());
    }
}
