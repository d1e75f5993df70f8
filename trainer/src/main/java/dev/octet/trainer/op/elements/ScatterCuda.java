package dev.octet.trainer.op.elements;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/**
 * Of updates put at the same row the last is found by a maximum, which no order changes; floats are added as {@link
 * dev.octet.trainer.op.gather.GatherCuda} adds gradients, in the order of the indices.
 *
 * <p>An index outside of its axis is not an error here: its update is lost, and the first row is NaN (all bits set).
 */
final class ScatterCuda implements CudaKernel<Scatter> {
    @Override
    public void forward(Scatter op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor y = frame.output(0);
        CudaTensor updates = frame.input(2);
        cuda.copy(frame.input(0).address(), y.address(), y.byteSize());
        if (updates.count() == 0 || y.count() == 0) {
            return;
        }
        RowsCuda rows = RowsCuda.find(op.places(), op.x(), frame.input(1), cuda);
        if (!op.adds()) {
            cuda.launch(
                    RowsCuda.SOURCE,
                    "pick_put_" + y.dtype().bits() / 8,
                    Grid.over(updates.count(), 256, 1),
                    updates,
                    rows.numbers(),
                    last(rows, cuda),
                    y,
                    updates.count(),
                    rows.count(),
                    rows.inner());
        } else if (y.dtype().isFloat()) {
            rows.add(updates, y, true, cuda);
        } else {
            cuda.launch(
                    RowsCuda.SOURCE,
                    "pick_add",
                    Grid.over(rows.inner(), 256, 1),
                    CudaSource.code(y.dtype()),
                    updates,
                    rows.numbers(),
                    y,
                    rows.numbers().count(),
                    rows.count(),
                    rows.inner());
        }
        cuda.launch(
                RowsCuda.SOURCE,
                "pick_spoil_" + y.dtype().bits() / 8,
                Grid.over(updates.count(), 256, 1),
                rows.numbers(),
                y,
                updates.count(),
                rows.count(),
                rows.inner());
    }

    /** One more than the number of the last update of each row, I32; 0 where there is none. */
    private static long last(RowsCuda rows, CudaStream cuda) {
        long last = cuda.workspace(rows.count() * Integer.BYTES);
        cuda.zero(last, rows.count() * Integer.BYTES);
        cuda.launch(
                RowsCuda.SOURCE,
                "pick_last",
                Grid.over(rows.numbers().count(), 256, 1),
                rows.numbers(),
                last,
                rows.numbers().count(),
                rows.count());
        return last;
    }

    @Override
    public void backward(Scatter op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        if (dy.count() == 0) {
            return;
        }
        RowsCuda rows = RowsCuda.find(op.places(), op.x(), frame.input(1), cuda);
        if (op.adds()) {
            if (frame.wantsGradient(0)) {
                cuda.copy(dy.address(), frame.gradient(0).address(), dy.byteSize());
            }
            if (frame.wantsGradient(2)) {
                rows.read(dy, frame.gradient(2), cuda);
            }
            return;
        }
        long last = last(rows, cuda);
        int width = dy.dtype().bits() / 8;
        if (frame.wantsGradient(0)) {
            cuda.launch(
                    RowsCuda.SOURCE,
                    "pick_keep_" + width,
                    Grid.over(dy.count(), 256, 1),
                    dy,
                    last,
                    frame.gradient(0),
                    dy.count(),
                    rows.inner());
        }
        if (frame.wantsGradient(2)) {
            CudaTensor du = frame.gradient(2);
            cuda.launch(
                    RowsCuda.SOURCE,
                    "pick_take_" + width,
                    Grid.over(du.count(), 256, 1),
                    dy,
                    rows.numbers(),
                    last,
                    du,
                    du.count(),
                    rows.count(),
                    rows.inner());
        }
    }
}
