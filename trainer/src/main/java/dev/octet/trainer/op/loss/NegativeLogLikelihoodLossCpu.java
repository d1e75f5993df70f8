package dev.octet.trainer.op.loss;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** One element of each position is read; the gradient is zero but for these. Labels are checked before anything is written. */
final class NegativeLogLikelihoodLossCpu implements CpuKernel<NegativeLogLikelihoodLoss> {
    @Override
    public void forward(NegativeLogLikelihoodLoss op, Frame<CpuTensor> frame, CpuContext cpu) {
        ClassLabels c = op.labels();
        int[] labels = c.check(frame.input(1)::readLong);
        float[] weights = ClassLabels.weights(frame, labels);
        float[] losses = new float[labels.length];
        float[] one = new float[1];
        for (int position = 0; position < labels.length; position++) {
            if (weights[position] != 0) {
                frame.input(0).read(at(c, position, labels[position]), one, 0, 1);
                losses[position] = -weights[position] * one[0];
            }
        }
        float divisor = c.reduction() == Reduction.MEAN ? (float) ClassLabels.sum(weights) : 1;
        frame.output(1).write(0, new float[] {divisor}, 0, 1);
        c.writeLoss(frame.output(0), losses, divisor);
    }

    private static long at(ClassLabels c, int position, int label) {
        return c.start(position) + (long) label * c.inner();
    }

    @Override
    public void backward(NegativeLogLikelihoodLoss op, Frame<CpuTensor> frame, CpuContext cpu) {
        ClassLabels c = op.labels();
        int[] labels = c.check(frame.input(1)::readLong);
        float[] dl = c.upstream(frame, ClassLabels.weights(frame, labels), frame.output(1));
        CpuTensor dx = frame.gradient(0);
        dx.bytes().fill((byte) 0);
        float[] one = new float[1];
        for (int position = 0; position < labels.length; position++) {
            if (dl[position] != 0) {
                one[0] = -dl[position];
                dx.write(at(c, position, labels[position]), one, 0, 1);
            }
        }
    }
}
