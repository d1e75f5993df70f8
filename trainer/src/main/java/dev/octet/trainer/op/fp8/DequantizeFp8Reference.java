package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** y[i] = code · scale. */
final class DequantizeFp8Reference implements ReferenceKernel.Forward<DequantizeFp8> {
    @Override
    public void forward(DequantizeFp8 op, Frame<double[]> frame) {
        double[] wide = Doubles.decode(frame.input(0), op.form().blocks(), frame.input(1));
        double[] y = frame.output(0);
        for (int i = 0; i < y.length; i++) {
            y[i] = Doubles.round(wide[i], op.y().dtype());
        }
    }
}
