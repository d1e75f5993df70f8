package dev.octet.trainer.op.gather;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Indices;
import dev.octet.trainer.kernel.ReferenceKernel;
import dev.octet.trainer.state.ReferenceState;

/** Decodes the whole table. */
final class GatherStateReference implements ReferenceKernel<GatherState> {
    private static final GatherReference ROWS = new GatherReference();

    @Override
    public void forward(GatherState op, Frame<double[]> frame) {
        Gather gather = op.rows();
        double[] table = ReferenceState.read(op.form(), gather.x(), GatherState.parts(frame::input), 0);
        int[] rows = Indices.resolve(gather.node(), frame.input(1), gather.size());
        int inner = Math.toIntExact(gather.inner());
        for (int i = 0; i < rows.length; i++) {
            System.arraycopy(table, rows[i] * inner, frame.output(0), i * inner, inner);
        }
    }

    @Override
    public void backward(GatherState op, Frame<double[]> frame) {
        ROWS.backward(op.rows(), frame);
    }
}
