package dev.octet.trainer.op.view;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** Copies; for where input and output cannot share memory. */
final class ViewReference implements ReferenceKernel<View> {
    @Override
    public void forward(View op, Frame<double[]> frame) {
        System.arraycopy(frame.input(0), 0, frame.output(0), 0, frame.output(0).length);
    }

    @Override
    public void backward(View op, Frame<double[]> frame) {
        System.arraycopy(frame.upstream(0), 0, frame.gradient(0), 0, frame.gradient(0).length);
    }
}
