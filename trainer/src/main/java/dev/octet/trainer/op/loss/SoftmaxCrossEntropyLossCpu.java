package dev.octet.trainer.op.loss;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.VectorMath;
import java.util.Arrays;

/** Position by position; the scores of one lie in an array while they are used. Labels are checked before anything is written. */
final class SoftmaxCrossEntropyLossCpu implements CpuKernel<SoftmaxCrossEntropyLoss> {
    @Override
    public void forward(SoftmaxCrossEntropyLoss op, Frame<CpuTensor> frame, CpuContext cpu) {
        ClassLabels c = op.labels();
        int[] labels = c.check(frame.input(1)::readLong);
        float[] weights = ClassLabels.weights(frame, labels);
        float[] losses = new float[labels.length];
        float[] logSums = new float[labels.length];
        cpu.parallel().ranges(labels.length, grain(c), (from, to) -> {
            float[] row = new float[c.classes()];
            for (int position = (int) from; position < to; position++) {
                c.read(frame.input(0), position, row);
                int label = labels[position];
                float expected = label < 0 ? 0 : expected(op, row, label);
                float logSum = logSum(row);
                logSums[position] = logSum;
                losses[position] = weights[position] == 0 ? 0 : weights[position] * (logSum - expected);
                if (op.givesLogarithms()) {
                    c.read(frame.input(0), position, row);
                    for (int k = 0; k < row.length; k++) {
                        row[k] -= logSum;
                    }
                    c.write(frame.output(1), position, row);
                }
            }
        });
        frame.output(op.logSumOutput()).write(0, logSums, 0, logSums.length);
        float divisor = c.reduction() == Reduction.MEAN ? (float) ClassLabels.sum(weights) : 1;
        frame.output(op.divisorOutput()).write(0, new float[] {divisor}, 0, 1);
        c.writeLoss(frame.output(0), losses, divisor);
    }

    /** Positions of a piece: about four rows of 8192 classes. */
    static long grain(ClassLabels c) {
        return Math.max(1, 16 * CpuContext.TILE / Math.max(1, c.classes()));
    }

    /** Sum of the scores times the target. */
    private static float expected(SoftmaxCrossEntropyLoss op, float[] row, int label) {
        return op.smoothing() == 0
                ? row[label]
                : (1 - op.smoothing()) * row[label] + op.smoothing() / row.length * VectorMath.sum(row, 0, row.length);
    }

    /** log Σ exp x; {@code row} is lost. */
    private static float logSum(float[] row) {
        float max = VectorMath.max(row, 0, row.length);
        return (float) (max + Math.log(VectorMath.expOfDifference(row, 0, max, row, 0, row.length)));
    }

    @Override
    public void backward(SoftmaxCrossEntropyLoss op, Frame<CpuTensor> frame, CpuContext cpu) {
        ClassLabels c = op.labels();
        int[] labels = c.check(frame.input(1)::readLong);
        float[] weights = ClassLabels.weights(frame, labels);
        float[] dl = c.upstream(frame, weights, frame.output(op.divisorOutput()));
        float[] logSums = new float[labels.length];
        frame.output(op.logSumOutput()).read(0, logSums, 0, logSums.length);
        boolean fromLogarithms = op.givesLogarithms() && frame.hasUpstream(1);
        cpu.parallel().ranges(labels.length, grain(c), (from, to) -> {
            float[] row = new float[c.classes()];
            float[] dlog = new float[fromLogarithms ? c.classes() : 0];
            for (int position = (int) from; position < to; position++) {
                if (dl[position] == 0 && !fromLogarithms) {
                    Arrays.fill(row, 0);
                } else {
                    c.read(frame.input(0), position, row);
                    if (fromLogarithms) {
                        c.read(frame.upstream(1), position, dlog);
                    }
                    gradient(row, logSums[position], dl[position], dlog);
                    toTarget(op, row, labels[position], dl[position]);
                }
                c.write(frame.gradient(0), position, row);
            }
        });
    }

    private static void gradient(float[] row, float logSum, float dl, float[] dlog) {
        float slope = dl - VectorMath.sum(dlog, 0, dlog.length);
        VectorMath.expOfDifference(row, 0, logSum, row, 0, row.length);
        for (int k = 0; k < row.length; k++) {
            row[k] *= slope;
        }
        for (int k = 0; k < dlog.length; k++) {
            row[k] += dlog[k];
        }
    }

    /** Takes dl times the target from the gradient. */
    private static void toTarget(SoftmaxCrossEntropyLoss op, float[] row, int label, float dl) {
        if (label < 0) {
            return;
        }
        row[label] -= dl * (1 - op.smoothing());
        float even = dl * (op.smoothing() / row.length);
        for (int k = 0; k < row.length && even != 0; k++) {
            row[k] -= even;
        }
    }
}
