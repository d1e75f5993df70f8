package dev.octet.trainer.op.fp8;

import dev.octet.quant.block.Blocks;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** To the bit, as MS-AMP does it. */
public final class QuantizeWindowedReference implements ReferenceKernel.Forward<QuantizeWindowed> {
    @Override
    public void forward(QuantizeWindowed op, Frame<double[]> frame) {
        double[] x = frame.input(0);
        float[] window = Doubles.toFloats(frame.input(2));
        float quantScale = cast(x, op, (float) frame.input(1)[0], window);
        CodedMatrix form = new CodedMatrix(op.format(), CodedMatrix.whole(1, x.length), null);
        double[] codes = Doubles.encode(x, form, new float[] {quantScale});
        System.arraycopy(codes, 0, frame.output(0), 0, codes.length);
        frame.output(1)[0] = QuantScaleRule.scale(quantScale);
        if (op.records()) {
            frame.output(2)[0] = quantScale;
            for (int i = 0; i < window.length; i++) {
                frame.output(3)[i] = window[i];
            }
        }
    }

    private static float cast(double[] x, QuantizeWindowed op, float before, float[] window) {
        Blocks whole = CodedMatrix.whole(1, x.length);
        float amax = Doubles.amax(x, whole, op.rule().isInTime(window))[0];
        return op.rule().cast(window, before, amax, op.format().maxValue());
    }
}
