package dev.octet.trainer.op.where;

import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** Element by element; a repeated element gets the sum of the gradients of its repetitions. */
final class WhereReference implements ReferenceKernel<Where> {
    static Broadcast broadcast(Where op) {
        return Broadcast.of(
                op.y().shape(), op.condition().shape(), op.a().shape(), op.b().shape());
    }

    @Override
    public void forward(Where op, Frame<double[]> frame) {
        Broadcast broadcast = broadcast(op);
        double[] y = frame.output(0);
        for (int i = 0; i < y.length; i++) {
            int taken = frame.input(0)[(int) broadcast.index(0, i)] != 0 ? 1 : 2;
            y[i] = frame.input(taken)[(int) broadcast.index(taken, i)];
        }
    }

    @Override
    public void backward(Where op, Frame<double[]> frame) {
        Broadcast broadcast = broadcast(op);
        double[] dy = frame.upstream(0);
        for (int i = 0; i < dy.length; i++) {
            int taken = frame.input(0)[(int) broadcast.index(0, i)] != 0 ? 1 : 2;
            if (frame.wantsGradient(taken)) {
                frame.gradient(taken)[(int) broadcast.index(taken, i)] += dy[i];
            }
        }
    }
}
