package dev.octet.trainer.op.loss;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Two numbers. */
final class MixedLossCpu implements CpuKernel<MixedLoss> {
    @Override
    public void forward(MixedLoss op, Frame<CpuTensor> frame, CpuContext cpu) {
        float[] losses = new float[2];
        frame.input(0).read(0, losses, 0, 1);
        frame.input(1).read(0, losses, 1, 1);
        losses[0] = op.weight(0) * losses[0] + op.weight(1) * losses[1];
        frame.output(0).write(0, losses, 0, 1);
    }

    @Override
    public void backward(MixedLoss op, Frame<CpuTensor> frame, CpuContext cpu) {
        float[] up = new float[2];
        frame.upstream(0).read(0, up, 0, 1);
        for (int i = 0; i < 2; i++) {
            if (frame.wantsGradient(i)) {
                up[1] = op.weight(i) * up[0];
                frame.gradient(i).write(0, up, 1, 1);
            }
        }
    }
}
