package dev.octet.trainer.op.loss;

import dev.octet.trainer.collective.RankReduction;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.VectorMath;
import java.util.Arrays;

/** Position by position, as the whole loss; three numbers of a position travel in two messages. Labels are checked before anything is sent. */
final class CutCrossEntropyLossCpu implements CpuKernel<CutCrossEntropyLoss> {
    @Override
    public void forward(CutCrossEntropyLoss op, Frame<CpuTensor> frame, CpuContext cpu) {
        ClassLabels c = op.own();
        int[] labels = op.all().check(frame.input(1)::readLong);
        int n = labels.length;
        float[] largest = new float[n];
        cpu.parallel().ranges(n, SoftmaxCrossEntropyLossCpu.grain(c), (from, to) -> {
            float[] row = new float[c.classes()];
            for (int position = (int) from; position < to; position++) {
                c.read(frame.input(0), position, row);
                largest[position] = VectorMath.max(row, 0, row.length);
            }
        });
        op.ranks().allReduce(largest, RankReduction.MAX);
        float[] sums = new float[2 * n]; // of exponentials, then of scores times the target
        cpu.parallel().ranges(n, SoftmaxCrossEntropyLossCpu.grain(c), (from, to) -> {
            float[] row = new float[c.classes()];
            for (int position = (int) from; position < to; position++) {
                c.read(frame.input(0), position, row);
                sums[n + position] = expected(op, row, labels[position]);
                sums[position] = VectorMath.expOfDifference(row, 0, largest[position], row, 0, row.length);
            }
        });
        op.ranks().allReduce(sums, RankReduction.SUM);
        float[] logSums = new float[n];
        float[] losses = new float[n];
        float[] weights = ClassLabels.weights(frame, labels);
        for (int i = 0; i < n; i++) {
            logSums[i] = (float) (largest[i] + Math.log(sums[i]));
            losses[i] = weights[i] == 0 ? 0 : logSums[i] - sums[n + i];
        }
        frame.output(1).write(0, logSums, 0, n);
        float divisor = c.reduction() == Reduction.MEAN ? (float) ClassLabels.sum(weights) : 1;
        frame.output(2).write(0, new float[] {divisor}, 0, 1);
        c.writeLoss(frame.output(0), losses, divisor);
    }

    /** Sum of the rank's scores times the target. */
    private static float expected(CutCrossEntropyLoss op, float[] row, int label) {
        if (label < 0) {
            return 0;
        }
        int here = op.here(label);
        float at = here < 0 ? 0 : row[here];
        return op.smoothing() == 0
                ? at
                : (1 - op.smoothing()) * at + op.smoothing() / op.all().classes() * VectorMath.sum(row, 0, row.length);
    }

    @Override
    public void backward(CutCrossEntropyLoss op, Frame<CpuTensor> frame, CpuContext cpu) {
        ClassLabels c = op.own();
        int[] labels = op.all().check(frame.input(1)::readLong);
        float[] weights = ClassLabels.weights(frame, labels);
        float[] dl = c.upstream(frame, weights, frame.output(2));
        float[] logSums = new float[labels.length];
        frame.output(1).read(0, logSums, 0, logSums.length);
        cpu.parallel().ranges(labels.length, SoftmaxCrossEntropyLossCpu.grain(c), (from, to) -> {
            float[] row = new float[c.classes()];
            for (int position = (int) from; position < to; position++) {
                if (dl[position] == 0) {
                    Arrays.fill(row, 0);
                } else {
                    c.read(frame.input(0), position, row);
                    gradient(op, row, logSums[position], labels[position], dl[position]);
                }
                c.write(frame.gradient(0), position, row);
            }
        });
    }

    private static void gradient(CutCrossEntropyLoss op, float[] row, float logSum, int label, float dl) {
        VectorMath.expOfDifference(row, 0, logSum, row, 0, row.length);
        float even = dl * (op.smoothing() / op.all().classes());
        for (int k = 0; k < row.length; k++) {
            row[k] = row[k] * dl - even;
        }
        int here = op.here(label);
        if (here >= 0) {
            row[here] -= dl * (1 - op.smoothing());
        }
    }
}
