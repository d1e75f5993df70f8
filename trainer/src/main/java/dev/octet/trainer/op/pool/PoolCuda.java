package dev.octet.trainer.op.pool;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.stream.LongStream;

/** A thread for each window, or a warp where windows are large; backward a thread for each input, which collects from its windows. */
final class PoolCuda implements CudaKernel<Pool> {
    private static final CudaSource SOURCE = CudaSource.of(PoolCuda.class, "pool.cu");

    /** Places of a window that are worth a warp. */
    private static final int LARGE = 64;

    @Override
    public void forward(Pool op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor x = frame.input(0);
        CudaTensor y = frame.output(0);
        int volume = op.windows().stream().mapToInt(Windows::kernel).reduce(1, Math::multiplyExact);
        boolean byWarps = volume >= LARGE;
        cuda.launch(
                SOURCE,
                (byWarps ? "pool_warps_" : "pool_threads_") + x.suffix(),
                Grid.over(byWarps ? 32 * y.count() : y.count(), 256, 1),
                x,
                y,
                op.isMax() ? frame.output(1).address() : 0L,
                y.count(),
                op.isMax() ? 1 : 0,
                op.countsPadding() ? 1 : 0,
                windows(op, cuda));
    }

    private static long windows(Pool op, CudaStream cuda) {
        return cuda.table(op.windows().stream()
                .flatMapToLong(w ->
                        LongStream.of(w.in(), w.out(), w.kernel(), w.stride(), w.padBegin(), w.padEnd(), w.dilation()))
                .toArray());
    }

    @Override
    public void backward(Pool op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dx = frame.gradient(0);
        cuda.launch(
                SOURCE,
                "pool_backward_" + dx.suffix(),
                Grid.over(dx.count(), 256, 1),
                frame.upstream(0),
                op.isMax() ? frame.output(1).address() : 0L,
                dx,
                dx.count(),
                op.isMax() ? 1 : 0,
                op.countsPadding() ? 1 : 0,
                windows(op, cuda));
    }
}
