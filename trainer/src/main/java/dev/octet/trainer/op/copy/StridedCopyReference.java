package dev.octet.trainer.op.copy;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import java.util.Arrays;

/** Element by element; the gradient goes the way back. */
final class StridedCopyReference<O extends StridedCopyOp> implements ReferenceKernel<O> {
    @Override
    public void forward(O op, Frame<double[]> frame) {
        for (int j = 0; j < op.outputs().size(); j++) {
            Arrays.fill(frame.output(j), op.fill());
        }
        for (StridedCopy b : op.boxes()) {
            double[] x = frame.input(b.input());
            double[] y = frame.output(b.output());
            int axes = b.dims().size();
            for (long i = 0; i < b.count(); i++) {
                y[(int) b.outputAt(i, axes)] = x[(int) b.inputAt(i, axes)];
            }
        }
    }

    @Override
    public void backward(O op, Frame<double[]> frame) {
        for (StridedCopy b : op.boxes()) {
            if (!frame.wantsGradient(b.input()) || !frame.hasUpstream(b.output())) {
                continue;
            }
            double[] dx = frame.gradient(b.input());
            double[] dy = frame.upstream(b.output());
            int axes = b.dims().size();
            for (long i = 0; i < b.count(); i++) {
                dx[(int) b.inputAt(i, axes)] = dy[(int) b.outputAt(i, axes)];
            }
        }
    }
}
