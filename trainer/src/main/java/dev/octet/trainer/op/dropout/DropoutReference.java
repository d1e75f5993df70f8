package dev.octet.trainer.op.dropout;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** dx = dy times the mask. */
final class DropoutReference implements ReferenceKernel<Dropout> {
    @Override
    public void forward(Dropout op, Frame<double[]> frame) {
        keep(op, frame, frame.input(0), frame.output(0));
    }

    @Override
    public void backward(Dropout op, Frame<double[]> frame) {
        keep(op, frame, frame.upstream(0), frame.gradient(0));
    }

    private static void keep(Dropout op, Frame<double[]> frame, double[] from, double[] to) {
        double[] draw = frame.input(1);
        long key = op.key((long) draw[0], (long) draw[1]);
        for (int i = 0; i < to.length; i++) {
            to[i] = Dropout.bits(key, i) >= op.threshold() ? from[i] * op.factor() : 0;
        }
    }
}
