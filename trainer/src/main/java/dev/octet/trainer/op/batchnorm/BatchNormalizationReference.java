package dev.octet.trainer.op.batchnorm;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** With r = 1 / √(variance + epsilon): dx = dy · scale · r; dscale = Σ dy (x - mean) r; dbias = Σ dy. */
final class BatchNormalizationReference implements ReferenceKernel<BatchNormalization> {
    @Override
    public void forward(BatchNormalization op, Frame<double[]> frame) {
        for (int i = 0; i < frame.input(0).length; i++) {
            int c = channel(op, i);
            double normal = (frame.input(0)[i] - frame.input(3)[c]) * r(op, frame, c);
            frame.output(0)[i] = normal * frame.input(1)[c] + frame.input(2)[c];
        }
    }

    private static int channel(BatchNormalization op, int element) {
        return element / op.inner() % op.channels();
    }

    private static double r(BatchNormalization op, Frame<double[]> frame, int c) {
        return 1 / Math.sqrt(frame.input(4)[c] + op.epsilon());
    }

    @Override
    public void backward(BatchNormalization op, Frame<double[]> frame) {
        double[] dy = frame.upstream(0);
        for (int i = 0; i < dy.length; i++) {
            int c = channel(op, i);
            double r = r(op, frame, c);
            if (frame.wantsGradient(0)) {
                frame.gradient(0)[i] = dy[i] * frame.input(1)[c] * r;
            }
            if (frame.wantsGradient(1)) {
                frame.gradient(1)[c] += dy[i] * (frame.input(0)[i] - frame.input(3)[c]) * r;
            }
            if (frame.wantsGradient(2)) {
                frame.gradient(2)[c] += dy[i];
            }
        }
    }
}
