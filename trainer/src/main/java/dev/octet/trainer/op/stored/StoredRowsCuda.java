package dev.octet.trainer.op.stored;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** A thread for each element. Elements are never seen here, so an index outside of the table is not an error: its row is NaN. */
final class StoredRowsCuda implements CudaKernel.Forward<StoredRows> {
    @Override
    public void forward(StoredRows op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor y = frame.output(0);
        if (y.count() > 0) {
            new CudaTiles(op.table(), frame, StoredRows.TABLE, cuda).rows(frame.input(StoredRows.INDICES), y);
        }
    }
}
