package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.Frame;

/** The reference twins: as the formulas stand, in order. */
final class UpdateReference {
    private UpdateReference() {}

    static void squareSum(SquareSum op, Frame<double[]> frame) {
        double sum = 0;
        for (double g : frame.input(0)) {
            sum += g * g;
        }
        frame.output(0)[0] = sum;
    }

    static void lossCheck(LossCheck op, Frame<double[]> frame) {
        frame.output(0)[0] = Double.isFinite(scalar(frame, 0)) ? scalar(frame, 1) : 1;
    }

    static void finiteGradients(FiniteGradients op, Frame<double[]> frame) {
        double squares = 0;
        for (int i = 0; i < op.gradients(); i++) {
            squares += scalar(frame, FiniteGradients.SQUARES + i);
        }
        double[] outputs = op.outputs(scalar(frame, 0), scalar(frame, 1), scalar(frame, 2), squares);
        for (int j = 0; j < outputs.length; j++) {
            frame.output(j)[0] = outputs[j];
        }
    }

    static void updateRms(UpdateRms op, Frame<double[]> frame) {
        double sum = 0;
        for (int i = 0; i < frame.input(0).length; i++) {
            double g = frame.input(0)[i] * scalar(frame, 3);
            double u = (op.beta2() * frame.input(1)[i] + (1 - op.beta2()) * g * g) / op.correction(scalar(frame, 2));
            double expected = Math.max(u, op.eps() * op.eps());
            sum += expected > 0 ? g * g / expected : 0;
        }
        frame.output(0)[0] = Math.sqrt(sum / Math.max(1, frame.input(0).length));
    }

    static void average(WeightAverage op, Frame<double[]> frame) {
        double weight = op.weight(scalar(frame, 2), scalar(frame, 3) != 0);
        for (int i = 0; i < frame.input(0).length; i++) {
            double average = frame.input(0)[i];
            frame.output(0)[i] = average + weight * (frame.input(1)[i] - average);
        }
    }

    static void adam(AdamStep op, Frame<double[]> frame) {
        AdamStep.Scalars s = op.scalars(i -> scalar(frame, i));
        for (int i = 0; i < frame.input(0).length; i++) {
            double p = frame.input(0)[i];
            double m = frame.input(2)[i];
            double v = frame.input(3)[i];
            if (!s.leftOut()) {
                double g = frame.input(1)[i] * s.factor() + op.coupledDecay() * p;
                m += (1 - op.beta1()) * (g - m);
                v = op.beta2() * v + (1 - op.beta2()) * g * g;
                p = p * op.kept(s) - op.stepSize(s) * m / (Math.sqrt(v) / op.rootCorrection(s) + op.eps());
            }
            frame.output(0)[i] = p;
            frame.output(1)[i] = m;
            frame.output(2)[i] = v;
        }
    }

    static void sgd(SgdStep op, Frame<double[]> frame) {
        boolean leftOut = scalar(frame, 5) != 0;
        for (int i = 0; i < frame.input(0).length; i++) {
            double p = frame.input(0)[i];
            double g = frame.input(1)[i] * scalar(frame, 4) + op.weightDecay() * p;
            if (op.hasBuffer()) {
                double b = frame.input(SgdStep.BUFFER)[i];
                if (!leftOut) {
                    b = scalar(frame, 3) == 1 ? g : op.momentum() * b + (1 - op.dampening()) * g;
                }
                g = op.nesterov() ? g + op.momentum() * b : b;
                frame.output(1)[i] = b;
            }
            frame.output(0)[i] = leftOut ? p : p - scalar(frame, 2) * g;
        }
    }

    private static double scalar(Frame<double[]> frame, int i) {
        return frame.input(i)[0];
    }
}
