package dev.octet.trainer.op.loss;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/**
 * With p = softmax x: {@code dx = w[label] (p - target) dl}, the target one at the label or smoothed, dl divided by the sum of weights for a mean; and from the
 * logarithms, {@code dx += dlog - p Σ dlog}.
 */
final class SoftmaxCrossEntropyLossReference implements ReferenceKernel<SoftmaxCrossEntropyLoss> {
    @Override
    public void forward(SoftmaxCrossEntropyLoss op, Frame<double[]> frame) {
        ClassLabels c = op.labels();
        double[] x = frame.input(0);
        int[] labels = c.check(i -> (long) frame.input(1)[i]);
        double sum = 0;
        double divisor = 0;
        for (int position = 0; position < labels.length; position++) {
            int start = (int) c.start(position);
            double max = Double.NEGATIVE_INFINITY;
            for (int k = 0; k < c.classes(); k++) {
                max = Math.max(max, x[start + k * c.inner()]);
            }
            double exponentials = 0;
            for (int k = 0; k < c.classes(); k++) {
                exponentials += Math.exp(x[start + k * c.inner()] - max);
            }
            double logSum = max + Math.log(exponentials);
            frame.output(op.logSumOutput())[position] = logSum;
            for (int k = 0; k < c.classes() && op.givesLogarithms(); k++) {
                frame.output(1)[start + k * c.inner()] = x[start + k * c.inner()] - logSum;
            }
            double weight = weight(frame, labels[position]);
            double loss = weight == 0 ? 0 : weight * (logSum - expected(op, x, start, labels[position]));
            sum += loss;
            divisor += weight;
            if (c.reduction() == Reduction.NONE) {
                frame.output(0)[position] = loss;
            }
        }
        frame.output(op.divisorOutput())[0] = c.reduction() == Reduction.MEAN ? divisor : 1;
        if (c.reduction() != Reduction.NONE) {
            frame.output(0)[0] = sum / frame.output(op.divisorOutput())[0];
        }
    }

    /** Sum of the scores times the target. */
    private static double expected(SoftmaxCrossEntropyLoss op, double[] x, int start, int label) {
        ClassLabels c = op.labels();
        double sum = 0;
        for (int k = 0; k < c.classes() && op.smoothing() > 0; k++) {
            sum += x[start + k * c.inner()];
        }
        double even = op.smoothing() / (double) c.classes() * sum;
        return (1.0 - op.smoothing()) * x[start + label * c.inner()] + even;
    }

    /** 0 for a label that does not count. */
    static double weight(Frame<double[]> frame, int label) {
        return label < 0 ? 0 : frame.hasInput(2) ? frame.input(2)[label] : 1;
    }

    @Override
    public void backward(SoftmaxCrossEntropyLoss op, Frame<double[]> frame) {
        ClassLabels c = op.labels();
        double[] x = frame.input(0);
        double[] dx = frame.gradient(0);
        int[] labels = c.check(i -> (long) frame.input(1)[i]);
        for (int position = 0; position < labels.length; position++) {
            int start = (int) c.start(position);
            double weight = weight(frame, labels[position]);
            double dl = 0;
            if (frame.hasUpstream(0) && weight != 0) {
                double up = frame.upstream(0)[c.reduction() == Reduction.NONE ? position : 0];
                dl = weight * up / frame.output(op.divisorOutput())[0];
            }
            double dlogSum = 0;
            for (int k = 0; k < c.classes() && fromLogarithms(op, frame); k++) {
                dlogSum += frame.upstream(1)[start + k * c.inner()];
            }
            for (int k = 0; k < c.classes(); k++) {
                int at = start + k * c.inner();
                double p = Math.exp(x[at] - frame.output(op.logSumOutput())[position]);
                double dlog = fromLogarithms(op, frame) ? frame.upstream(1)[at] : 0;
                dx[at] = dl
                                * (p
                                        - (k == labels[position] ? 1.0 - op.smoothing() : 0)
                                        - op.smoothing() / (double) c.classes())
                        + dlog
                        - p * dlogSum;
            }
        }
    }

    private static boolean fromLogarithms(SoftmaxCrossEntropyLoss op, Frame<double[]> frame) {
        return op.givesLogarithms() && frame.hasUpstream(1);
    }
}
