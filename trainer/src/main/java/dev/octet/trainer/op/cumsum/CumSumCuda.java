package dev.octet.trainer.op.cumsum;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** A warp for each line of neighbours, a thread for each of other lines. Sums in F64, like the CPU twin's. */
final class CumSumCuda implements CudaKernel<CumSum> {
    private static final CudaSource SOURCE = CudaSource.of(CumSumCuda.class, "cumsum.cu");

    @Override
    public void forward(CumSum op, Frame<CudaTensor> frame, CudaStream cuda) {
        run(op, frame.input(0), frame.output(0), cuda);
    }

    @Override
    public void backward(CumSum op, Frame<CudaTensor> frame, CudaStream cuda) {
        run(op.back(), frame.upstream(0), frame.gradient(0), cuda);
    }

    private static void run(CumSum op, CudaTensor x, CudaTensor y, CudaStream cuda) {
        if (y.count() == 0) {
            return;
        }
        long lines = y.count() / op.size();
        boolean byWarps = op.inner() == 1 && op.size() >= 32;
        cuda.launch(
                SOURCE,
                byWarps ? "cumsum_warps" : "cumsum_threads",
                Grid.over(byWarps ? 32 * lines : lines, 256, 1),
                CudaSource.code(x.dtype()),
                x,
                y,
                lines,
                (long) op.size(),
                (long) op.inner(),
                op.exclusive() ? 1 : 0,
                op.reverse() ? 1 : 0);
    }
}
