package dev.octet.trainer.op.stored;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Indices;
import dev.octet.trainer.kernel.ReferenceKernel;

/** y[i, c] = table[indices[i], c]. */
final class StoredRowsReference implements ReferenceKernel.Forward<StoredRows> {
    @Override
    public void forward(StoredRows op, Frame<double[]> frame) {
        double[] table = new Decoding(op.table(), StoredRows.TABLE).elements(frame);
        double[] y = frame.output(0);
        int cols = op.table().cols();
        int[] at = Indices.resolve(
                op.node(), frame.input(StoredRows.INDICES), op.table().rows());
        for (int i = 0; i < y.length; i++) {
            y[i] = table[at[i / cols] * cols + i % cols];
        }
    }
}
