package dev.octet.trainer.op.loss;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** dx[label] = -w[label] dl, dl divided by the sum of weights for a mean; 0 elsewhere. */
final class NegativeLogLikelihoodLossReference implements ReferenceKernel<NegativeLogLikelihoodLoss> {
    @Override
    public void forward(NegativeLogLikelihoodLoss op, Frame<double[]> frame) {
        ClassLabels c = op.labels();
        int[] labels = c.check(i -> (long) frame.input(1)[i]);
        double sum = 0;
        double divisor = 0;
        for (int position = 0; position < labels.length; position++) {
            double weight = SoftmaxCrossEntropyLossReference.weight(frame, labels[position]);
            double loss = weight == 0 ? 0 : -weight * frame.input(0)[at(c, position, labels[position])];
            sum += loss;
            divisor += weight;
            if (c.reduction() == Reduction.NONE) {
                frame.output(0)[position] = loss;
            }
        }
        frame.output(1)[0] = c.reduction() == Reduction.MEAN ? divisor : 1;
        if (c.reduction() != Reduction.NONE) {
            frame.output(0)[0] = sum / frame.output(1)[0];
        }
    }

    private static int at(ClassLabels c, int position, int label) {
        return (int) c.start(position) + label * c.inner();
    }

    @Override
    public void backward(NegativeLogLikelihoodLoss op, Frame<double[]> frame) {
        ClassLabels c = op.labels();
        int[] labels = c.check(i -> (long) frame.input(1)[i]);
        for (int position = 0; position < labels.length; position++) {
            double weight = SoftmaxCrossEntropyLossReference.weight(frame, labels[position]);
            if (weight != 0) {
                double up = frame.upstream(0)[c.reduction() == Reduction.NONE ? position : 0];
                frame.gradient(0)[at(c, position, labels[position])] = -weight * up / frame.output(1)[0];
            }
        }
    }
}
