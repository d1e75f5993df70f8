package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import dev.octet.trainer.state.ReferenceState;

/** Sums rounded as in the recipe, then their codes. */
final class AccumulateCodesReference implements ReferenceKernel.Forward<AccumulateCodes> {
    @Override
    public void forward(AccumulateCodes op, Frame<double[]> frame) {
        double[] sums = ReferenceState.read(op.form(), op.x(), frame::input, 0);
        double[] x = frame.input(2);
        float amax = 0;
        for (int i = 0; i < sums.length; i++) {
            float s = (float) Doubles.round((float) sums[i] + (float) x[i], op.rounded());
            sums[i] = Float.isFinite(s) ? s : Double.NaN;
            amax = Math.max(amax, Math.abs((float) sums[i]));
        }
        float quantScale = op.quantScale(amax, 1 / (float) frame.input(1)[0]);
        CodedMatrix form = new CodedMatrix(op.format(), CodedMatrix.whole(1, sums.length), null);
        System.arraycopy(Doubles.encode(sums, form, new float[] {quantScale}), 0, frame.output(0), 0, sums.length);
        frame.output(1)[0] = 1 / quantScale;
    }
}
