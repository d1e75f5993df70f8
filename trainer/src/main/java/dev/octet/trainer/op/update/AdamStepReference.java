package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.Frame;

/** As the formulas stand. */
final class AdamStepReference extends UpdateReference<AdamStep> {
    @Override
    public void forward(AdamStep op, Frame<double[]> frame) {
        AdamStep.Scalars s =
                new AdamStep.Scalars(scalar(frame, 4), scalar(frame, 5), scalar(frame, 6), scalar(frame, 7) != 0);
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
}
