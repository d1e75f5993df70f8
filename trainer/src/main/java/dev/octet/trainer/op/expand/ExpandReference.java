package dev.octet.trainer.op.expand;

import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** Element by element. */
final class ExpandReference implements ReferenceKernel<Expand> {
    @Override
    public void forward(Expand op, Frame<double[]> frame) {
        Broadcast broadcast = op.broadcast();
        for (int i = 0; i < frame.output(0).length; i++) {
            frame.output(0)[i] = frame.input(0)[(int) broadcast.index(0, i)];
        }
    }

    @Override
    public void backward(Expand op, Frame<double[]> frame) {
        Broadcast broadcast = op.broadcast();
        for (int i = 0; i < frame.upstream(0).length; i++) {
            frame.gradient(0)[(int) broadcast.index(0, i)] += frame.upstream(0)[i];
        }
    }
}
