package dev.octet.trainer.op.transpose;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** Each element of the result is looked up. */
final class TransposeReference implements ReferenceKernel<Transpose> {
    @Override
    public void forward(Transpose op, Frame<double[]> frame) {
        permute(op, frame.input(0), frame.output(0));
    }

    @Override
    public void backward(Transpose op, Frame<double[]> frame) {
        permute(op.inverse(), frame.upstream(0), frame.gradient(0));
    }

    private static void permute(Transpose op, double[] x, double[] y) {
        Shape from = op.x().shape();
        Shape to = op.shape();
        for (int i = 0; i < y.length; i++) {
            long[] position = new long[from.rank()];
            long rest = i;
            for (int axis = to.rank() - 1; axis >= 0; axis--) {
                position[op.order().get(axis)] = rest % to.dim(axis);
                rest /= to.dim(axis);
            }
            long at = 0;
            for (int axis = 0; axis < from.rank(); axis++) {
                at = at * from.dim(axis) + position[axis];
            }
            y[i] = x[(int) at];
        }
    }
}
