package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.Frame;

/** In order. */
final class SquareSumReference extends UpdateReference<SquareSum> {
    @Override
    public void forward(SquareSum op, Frame<double[]> frame) {
        double sum = 0;
        for (double g : frame.input(0)) {
            sum += g * g;
        }
        frame.output(0)[0] = sum;
    }
}
