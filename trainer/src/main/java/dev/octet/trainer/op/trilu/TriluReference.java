package dev.octet.trainer.op.trilu;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** Element by element: above the diagonal is where the column less the row is larger than its number. */
final class TriluReference implements ReferenceKernel<Trilu> {
    @Override
    public void forward(Trilu op, Frame<double[]> frame) {
        keep(op, frame.input(0), frame.output(0));
    }

    @Override
    public void backward(Trilu op, Frame<double[]> frame) {
        keep(op, frame.upstream(0), frame.gradient(0));
    }

    private static void keep(Trilu op, double[] from, double[] to) {
        for (int i = 0; i < to.length; i++) {
            long diagonal = i % op.columns() - i / op.columns() % op.rows();
            boolean kept = op.upper() ? diagonal >= op.diagonal() : diagonal <= op.diagonal();
            to[i] = kept ? from[i] : 0;
        }
    }
}
