package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.Frame;

/** The reference twins of Muon's operators. */
final class MuonReference {
    private MuonReference() {}

    static void momentum(MuonMomentum op, Frame<double[]> frame) {
        boolean leftOut = frame.input(3)[0] != 0;
        for (int i = 0; i < frame.input(0).length; i++) {
            double g = frame.input(0)[i] * frame.input(2)[0];
            double old = frame.input(1)[i];
            double m = leftOut ? old : old + (1 - op.momentum()) * (g - old);
            frame.output(0)[i] = leftOut ? 0 : op.nesterov() ? g + op.momentum() * (m - g) : m;
            frame.output(1)[i] = m;
        }
    }

    static void scale(MuonScale op, Frame<double[]> frame) {
        for (int i = 0; i < frame.input(0).length; i++) {
            frame.output(0)[i] = frame.input(0)[i] * op.factor(frame.input(1)[0]);
        }
    }

    static void step(MuonStep op, Frame<double[]> frame) {
        double lr = frame.input(2)[0];
        boolean leftOut = frame.input(3)[0] != 0;
        for (int i = 0; i < frame.input(0).length; i++) {
            double p = frame.input(0)[i];
            frame.output(0)[i] =
                    leftOut ? p : p * (1 - lr * op.weightDecay()) - lr * op.adjustment() * frame.input(1)[i];
        }
    }
}
