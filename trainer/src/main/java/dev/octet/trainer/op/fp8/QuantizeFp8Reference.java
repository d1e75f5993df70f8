package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** Block by block; to the bit, as the rule's library does it. */
public final class QuantizeFp8Reference implements ReferenceKernel.Forward<QuantizeFp8> {
    @Override
    public void forward(QuantizeFp8 op, Frame<double[]> frame) {
        double[] x = frame.input(0);
        float[] quantScales =
                Doubles.quantScales(x, op.form(), op.rule(), op.x().dtype());
        double[] codes = Doubles.encode(x, op.form(), quantScales);
        double[] scales = Doubles.scales(quantScales);
        System.arraycopy(codes, 0, frame.output(0), 0, codes.length);
        System.arraycopy(scales, 0, frame.output(1), 0, scales.length);
        if (op.records()) {
            float largest = 0;
            for (float amax : Doubles.amax(x, op.form().blocks(), false)) {
                largest = Math.max(largest, amax);
            }
            frame.output(2)[0] = largest;
        }
    }
}
