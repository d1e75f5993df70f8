package dev.octet.trainer.op.loss;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** {@code dx = T (q - p) w / Σ w}: T² from the loss, 1 / T from the scores. A class the teacher excludes (p = 0) adds nothing. */
final class KlDivergenceLossReference implements ReferenceKernel<KlDivergenceLoss> {
    @Override
    public void forward(KlDivergenceLoss op, Frame<double[]> frame) {
        double[] weights = weights(op, frame);
        double temperature = op.temperature();
        double sum = 0;
        double divisor = 0;
        for (int position = 0; position < weights.length; position++) {
            double ofStudent = logSum(op, frame.input(0), position);
            double ofTeacher = logSum(op, frame.input(1), position);
            frame.output(1)[position] = ofStudent;
            frame.output(2)[position] = ofTeacher;
            divisor += weights[position];
            if (weights[position] == 0) {
                continue;
            }
            int start = (int) op.positions().start(position);
            for (int k = start; k < start + op.positions().classes(); k++) {
                double logP = frame.input(1)[k] / temperature - ofTeacher;
                double logQ = frame.input(0)[k] / temperature - ofStudent;
                double p = Math.exp(logP);
                sum += p == 0 ? 0 : weights[position] * p * (logP - logQ);
            }
        }
        frame.output(0)[0] = temperature * temperature * sum / divisor;
        frame.output(3)[0] = divisor;
    }

    private static double[] weights(KlDivergenceLoss op, Frame<double[]> frame) {
        double[] weights = new double[op.positions().count()];
        int[] labels = frame.hasInput(2) ? op.positions().check(i -> (long) frame.input(2)[i]) : new int[0];
        for (int position = 0; position < weights.length; position++) {
            weights[position] = labels.length > 0 ? (labels[position] < 0 ? 0 : 1) : RowWeights.one(frame, 3, position);
        }
        return weights;
    }

    private static double logSum(KlDivergenceLoss op, double[] x, int position) {
        int start = (int) op.positions().start(position);
        double max = Double.NEGATIVE_INFINITY;
        for (int k = start; k < start + op.positions().classes(); k++) {
            max = Math.max(max, x[k] / op.temperature());
        }
        double sum = 0;
        for (int k = start; k < start + op.positions().classes(); k++) {
            sum += Math.exp(x[k] / op.temperature() - max);
        }
        return max + Math.log(sum);
    }

    @Override
    public void backward(KlDivergenceLoss op, Frame<double[]> frame) {
        double[] weights = weights(op, frame);
        double temperature = op.temperature();
        double[] dx = frame.gradient(0);
        for (int position = 0; position < weights.length; position++) {
            double scale = weights[position] == 0
                    ? 0
                    : temperature * frame.upstream(0)[0] * weights[position] / frame.output(3)[0];
            int start = (int) op.positions().start(position);
            for (int k = start; k < start + op.positions().classes(); k++) {
                double q = Math.exp(frame.input(0)[k] / temperature - frame.output(1)[position]);
                double p = Math.exp(frame.input(1)[k] / temperature - frame.output(2)[position]);
                dx[k] = scale == 0 ? 0 : scale * (q - p);
            }
        }
    }
}
