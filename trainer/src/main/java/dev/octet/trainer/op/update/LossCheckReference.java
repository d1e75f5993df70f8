package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.Frame;

/** 1 once it is 1. */
final class LossCheckReference extends UpdateReference<LossCheck> {
    @Override
    public void forward(LossCheck op, Frame<double[]> frame) {
        frame.output(0)[0] = Double.isFinite(scalar(frame, 0)) ? scalar(frame, 1) : 1;
    }
}
