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
        frame.output(0)[0] = op.root(sum);
    }

    static void trustRatio(TrustRatio op, Frame<double[]> frame) {
        double t = scalar(frame, 4);
        double ofP = 0;
        double ofU = 0;
        for (int i = 0; i < frame.input(0).length; i++) {
            double p = frame.input(0)[i];
            double g = frame.input(1)[i] * scalar(frame, 5);
            double m = op.beta1() * frame.input(2)[i] + (1 - op.beta1()) * g;
            double v = op.beta2() * frame.input(3)[i] + (1 - op.beta2()) * g * g;
            double u = m / op.correction(t) / (Math.sqrt(v) / op.rootCorrection(t) + op.eps()) + op.weightDecay() * p;
            ofP += p * p;
            ofU += u * u;
        }
        frame.output(0)[0] = op.multiplier(ofP, ofU, t);
    }

    static void lion(LionStep op, Frame<double[]> frame) {
        elements(op, op.scalars(i -> scalar(frame, i)), frame, new int[] {0, 1, LionStep.MOMENT}, new int[] {0, 1});
    }

    static void average(WeightAverage op, Frame<double[]> frame) {
        double weight = op.weight(scalar(frame, 2), scalar(frame, 3) != 0);
        for (int i = 0; i < frame.input(0).length; i++) {
            double average = frame.input(0)[i];
            frame.output(0)[i] = average + weight * (frame.input(1)[i] - average);
        }
    }

    static void adam(AdamStep op, Frame<double[]> frame) {
        StepScalars s = op.scalars(i -> scalar(frame, i));
        elements(op.now(i -> scalar(frame, i)), s, frame, new int[] {0, 1, 2, 3}, new int[] {0, 1, 2});
    }

    static void sgd(SgdStep op, Frame<double[]> frame) {
        StepScalars s = op.scalars(i -> scalar(frame, i));
        if (op.hasBuffer()) {
            elements(op, s, frame, new int[] {0, 1, SgdStep.BUFFER}, new int[] {0, 1});
        } else {
            elements(op, s, frame, new int[] {0, 1}, new int[] {0});
        }
    }

    /**
     * Moves all elements on.
     *
     * @param inputs p, its gradient, the buffers
     * @param outputs p, the buffers
     */
    private static void elements(ElementStep op, StepScalars s, Frame<double[]> frame, int[] inputs, int[] outputs) {
        ElementStep.ElementFormula formula = op.formula(s);
        double[] x = new double[inputs.length];
        for (int i = 0; i < frame.input(0).length; i++) {
            for (int k = 0; k < x.length; k++) {
                x[k] = frame.input(inputs[k])[i];
            }
            if (!s.leftOut()) {
                formula.run(x);
            }
            for (int k = 0; k < outputs.length; k++) {
                frame.output(outputs[k])[i] = x[k == 0 ? 0 : k + 1];
            }
        }
    }

    private static double scalar(Frame<double[]> frame, int i) {
        return frame.input(i)[0];
    }
}
