package dev.octet.trainer.op.qat;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** Sample by sample; codes by FP32 arithmetic, as everywhere. */
final class GradientQuantizeReference implements ReferenceKernel<GradientQuantize> {
    @Override
    public void forward(GradientQuantize op, Frame<double[]> frame) {
        System.arraycopy(frame.input(0), 0, frame.output(0), 0, frame.output(0).length);
    }

    @Override
    public void backward(GradientQuantize op, Frame<double[]> frame) {
        double[] dy = frame.upstream(0);
        double[] dx = frame.gradient(0);
        double[] draw = frame.input(1);
        long key = op.key((long) draw[0], (long) draw[1]);
        int size = (int) op.size();
        for (int sample = 0; sample < op.samples(); sample++) {
            float m = 0;
            for (int i = sample * size; i < (sample + 1) * size; i++) {
                m = Math.max(m, (float) Math.abs(dy[i]));
            }
            for (int i = sample * size; i < (sample + 1) * size; i++) {
                dx[i] = op.gradient((float) dy[i], m, GradientQuantize.noise(key, i));
            }
        }
    }
}
