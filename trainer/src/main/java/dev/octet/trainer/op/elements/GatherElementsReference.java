package dev.octet.trainer.op.elements;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** Row by row. */
final class GatherElementsReference implements ReferenceKernel<GatherElements> {
    @Override
    public void forward(GatherElements op, Frame<double[]> frame) {
        int inner = (int) op.places().inner();
        long[] starts = op.places().starts(i -> (long) frame.input(1)[(int) i]);
        for (int r = 0; r < starts.length; r++) {
            System.arraycopy(frame.input(0), (int) starts[r], frame.output(0), r * inner, inner);
        }
    }

    @Override
    public void backward(GatherElements op, Frame<double[]> frame) {
        int inner = (int) op.places().inner();
        long[] starts = op.places().starts(i -> (long) frame.input(1)[(int) i]);
        for (int r = 0; r < starts.length; r++) {
            for (int i = 0; i < inner; i++) {
                frame.gradient(0)[(int) starts[r] + i] += frame.upstream(0)[r * inner + i];
            }
        }
    }
}
