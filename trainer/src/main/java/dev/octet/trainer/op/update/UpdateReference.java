package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** A reference twin that has no backward half. */
abstract class UpdateReference<O extends UpdateOp> implements ReferenceKernel<O> {
    @Override
    public final void backward(O op, Frame<double[]> frame) {
        throw new IllegalStateException(op.type() + " has no backward half");
    }

    static double scalar(Frame<double[]> frame, int i) {
        return frame.input(i)[0];
    }
}
