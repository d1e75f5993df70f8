package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.Frame;

/** As the formulas stand. */
final class SgdStepReference extends UpdateReference<SgdStep> {
    @Override
    public void forward(SgdStep op, Frame<double[]> frame) {
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
}
