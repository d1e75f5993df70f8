package dev.octet.trainer.op.fp8;

import dev.octet.quant.block.Blocks;
import dev.octet.quant.scale.AmaxHistory;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** To the bit, as Transformer Engine does it. */
public final class QuantizeFp8DelayedReference implements ReferenceKernel.Forward<QuantizeFp8Delayed> {
    @Override
    public void forward(QuantizeFp8Delayed op, Frame<double[]> frame) {
        double[] x = frame.input(0);
        float quantScale = (float) frame.input(1)[0];
        Blocks whole = CodedMatrix.whole(1, x.length);
        double[] codes = Doubles.encode(x, new CodedMatrix(op.format(), whole, null), new float[] {quantScale});
        System.arraycopy(codes, 0, frame.output(0), 0, codes.length);
        frame.output(1)[0] = QuantScaleRule.scale(quantScale);
        if (op.historyLength() > 0) {
            double[] history = frame.output(2);
            history[0] = AmaxHistory.raised((float) frame.input(2)[0], Doubles.amax(x, whole, false)[0]);
        }
    }
}
