package dev.octet.trainer.op.loss;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** da = weight · dl, db = (1 - weight) · dl. */
final class MixedLossReference implements ReferenceKernel<MixedLoss> {
    @Override
    public void forward(MixedLoss op, Frame<double[]> frame) {
        frame.output(0)[0] = op.weight(0) * frame.input(0)[0] + op.weight(1) * frame.input(1)[0];
    }

    @Override
    public void backward(MixedLoss op, Frame<double[]> frame) {
        for (int i = 0; i < 2; i++) {
            if (frame.wantsGradient(i)) {
                frame.gradient(i)[0] = op.weight(i) * frame.upstream(0)[0];
            }
        }
    }
}
