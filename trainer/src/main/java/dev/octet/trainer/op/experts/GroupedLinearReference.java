package dev.octet.trainer.op.experts;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import dev.octet.trainer.op.product.Loops;
import dev.octet.trainer.op.product.Loops.Matrix;
import java.util.Arrays;

/** Expert by expert: dx = dy·wᵀ, dw = xᵀ·dy, db = sum of the rows of dy. */
final class GroupedLinearReference implements ReferenceKernel<GroupedLinear> {
    @Override
    public void forward(GroupedLinear op, Frame<double[]> frame) {
        double[] y = frame.output(0);
        Arrays.fill(y, 0);
        for (int e = 0; e < op.experts(); e++) {
            int first = (int) frame.input(1)[e];
            int count = (int) frame.input(1)[e + 1] - first;
            for (int i = 0; op.hasBias() && i < count * op.out(); i++) {
                y[first * op.out() + i] = frame.input(GroupedLinear.WEIGHTS + op.experts() + e)[i % op.out()];
            }
            Loops.add(
                    Matrix.of(frame.input(0), first * op.in(), op.in()),
                    weight(op, frame.input(GroupedLinear.WEIGHTS + e)),
                    Matrix.of(y, first * op.out(), op.out()),
                    count,
                    op.out(),
                    op.in());
        }
    }

    @Override
    public void backward(GroupedLinear op, Frame<double[]> frame) {
        for (int e = 0; e < op.experts(); e++) {
            int first = (int) frame.input(1)[e];
            int count = (int) frame.input(1)[e + 1] - first;
            int w = GroupedLinear.WEIGHTS + e;
            Matrix dy = Matrix.of(frame.upstream(0), first * op.out(), op.out());
            if (frame.wantsGradient(0)) {
                Matrix dx = Matrix.of(frame.gradient(0), first * op.in(), op.in());
                Loops.add(dy, weight(op, frame.input(w)).transposed(), dx, count, op.in(), op.out());
            }
            if (frame.wantsGradient(w)) {
                Matrix xt = Matrix.of(frame.input(0), first * op.in(), op.in()).transposed();
                Loops.add(xt, dy, weight(op, frame.gradient(w)), op.in(), op.out(), count);
            }
            if (op.hasBias() && frame.wantsGradient(w + op.experts())) {
                for (int i = 0; i < count * op.out(); i++) {
                    frame.gradient(w + op.experts())[i % op.out()] += frame.upstream(0)[first * op.out() + i];
                }
            }
        }
    }

    /** [in, out], however it lies. */
    private static Matrix weight(GroupedLinear op, double[] w) {
        return Matrix.of(w, op.transB() ? op.in() : op.out()).transposed(op.transB());
    }
}
