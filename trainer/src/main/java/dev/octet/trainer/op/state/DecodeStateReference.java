package dev.octet.trainer.op.state;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import dev.octet.trainer.state.ReferenceState;

/** Without rounding to the target. */
final class DecodeStateReference implements ReferenceKernel<DecodeState> {
    @Override
    public void forward(DecodeState op, Frame<double[]> frame) {
        double[] all = ReferenceState.read(op.form(), op.tensor(), frame::input, 0);
        System.arraycopy(all, 0, frame.output(0), 0, all.length);
    }

    @Override
    public void backward(DecodeState op, Frame<double[]> frame) {
        System.arraycopy(frame.upstream(0), 0, frame.gradient(0), 0, frame.upstream(0).length);
    }
}
