package dev.octet.trainer.op.where;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.reduce.ReduceCuda;

/** Eight elements a thread where rows allow it, bytes as they are. The gradient of a repeated side is selected first, then summed. */
final class WhereCuda implements CudaKernel<Where> {
    private static final CudaSource SOURCE = CudaSource.of(WhereCuda.class, "where.cu");

    @Override
    public void forward(Where op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor a = frame.input(1);
        CudaTensor b = frame.input(2);
        Shape shape = op.y().shape();
        Broadcast broadcast = Broadcast.of(shape, op.condition().shape(), a.shape(), b.shape());
        select(broadcast, frame.input(0), a.address(), b.address(), frame.output(0), cuda);
    }

    /** Either side may be absent: 0. */
    private static void select(
            Broadcast broadcast, CudaTensor condition, long a, long b, CudaTensor y, CudaStream cuda) {
        int rank = broadcast.lengths().length;
        long[] axes = new long[4 * rank];
        System.arraycopy(broadcast.lengths(), 0, axes, 0, rank);
        boolean packed = axes[rank - 1] % 8 == 0;
        for (int k = 0; k < 3; k++) {
            long[] steps = broadcast.steps(k);
            System.arraycopy(steps, 0, axes, (k + 1) * rank, rank);
            for (int d = 0; d < rank - 1; d++) {
                packed &= steps[rank - 1] == 0 || steps[d] % 8 == 0;
            }
        }
        cuda.launch(
                SOURCE,
                "where_" + y.dtype().bits() / 8,
                Grid.over(y.count(), 256, packed ? 8 : 1),
                condition,
                a,
                b,
                y,
                y.count(),
                packed ? 1 : 0,
                rank,
                cuda.table(axes));
    }

    @Override
    public void backward(Where op, Frame<CudaTensor> frame, CudaStream cuda) {
        Shape shape = op.y().shape();
        CudaTensor dy = frame.upstream(0);
        for (int k = 1; k < 3; k++) {
            if (!frame.wantsGradient(k)) {
                continue;
            }
            CudaTensor gradient = frame.gradient(k);
            Broadcast repeated = Broadcast.of(shape, gradient.shape());
            boolean whole = repeated.isWhole(0);
            CudaTensor selected = whole ? gradient : new CudaTensor(dy.type(), cuda.workspace(dy.byteSize()));
            select(
                    Broadcast.of(shape, op.condition().shape(), shape, shape),
                    frame.input(0),
                    k == 1 ? dy.address() : 0,
                    k == 2 ? dy.address() : 0,
                    selected,
                    cuda);
            if (!whole) {
                ReduceCuda.sum(repeated, selected, gradient, cuda);
            }
        }
    }
}
