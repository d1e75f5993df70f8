package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import dev.octet.trainer.state.ReferenceState;

/** The numbers of the tensor, then the codes of them. */
final class QuantizeStateReference implements ReferenceKernel.Forward<QuantizeState> {
    @Override
    public void forward(QuantizeState op, Frame<double[]> frame) {
        double[] x = ReferenceState.read(op.form(), op.tensor(), frame::input, 0);
        CodedMatrix whole = new CodedMatrix(op.format(), CodedMatrix.whole(1, x.length), op.rule());
        float[] quantScales =
                Doubles.quantScales(x, whole, op.rule(), op.tensor().dtype());
        System.arraycopy(Doubles.encode(x, whole, quantScales), 0, frame.output(0), 0, x.length);
        frame.output(1)[0] = Doubles.scales(quantScales)[0];
    }
}
