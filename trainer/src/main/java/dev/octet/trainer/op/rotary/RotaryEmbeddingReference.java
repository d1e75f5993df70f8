package dev.octet.trainer.op.rotary;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** Each pair is turned by its angle; its gradient back by the same. */
final class RotaryEmbeddingReference implements ReferenceKernel<RotaryEmbedding> {
    @Override
    public void forward(RotaryEmbedding op, Frame<double[]> frame) {
        turn(op, frame, frame.input(0), frame.output(0), 1);
    }

    @Override
    public void backward(RotaryEmbedding op, Frame<double[]> frame) {
        turn(op, frame, frame.upstream(0), frame.gradient(0), -1);
    }

    private static void turn(RotaryEmbedding op, Frame<double[]> frame, double[] x, double[] y, int direction) {
        System.arraycopy(x, 0, y, 0, x.length);
        for (int b = 0; b < op.batch(); b++) {
            for (int s = 0; s < op.sequence(); s++) {
                long id = op.tableBatch() == 0 ? (long) frame.input(3)[b * op.sequence() + s] : 0;
                int row = op.tableRow(b, s, id);
                for (int h = 0; h < op.heads(); h++) {
                    for (int i = 0; i < op.rotated() / 2; i++) {
                        double cos = frame.input(1)[row + i];
                        double sin = direction * frame.input(2)[row + i];
                        int first = op.start(b, h, s) + op.first(i);
                        int second = op.start(b, h, s) + op.second(i);
                        y[first] = x[first] * cos - x[second] * sin;
                        y[second] = x[first] * sin + x[second] * cos;
                    }
                }
            }
        }
    }
}
