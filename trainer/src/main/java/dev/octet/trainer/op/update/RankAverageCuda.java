package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** A launch for each tensor. */
final class RankAverageCuda implements CudaKernel.Forward<RankAverage> {
    static final CudaSource SOURCE = CudaSource.of(RankAverageCuda.class, "ranks.cu");

    @Override
    public void forward(RankAverage op, Frame<CudaTensor> frame, CudaStream cuda) {
        long count = op.g().count();
        if (count > 0) {
            cuda.launch(
                    SOURCE,
                    "rank_average",
                    Grid.over(count, 256, 4),
                    gradients(frame, op.ranks(), cuda),
                    op.ranks(),
                    op.factor(),
                    count,
                    CudaSource.code(op.g().dtype()),
                    frame.output(0));
        }
    }

    /** The addresses of the ranks' gradients. */
    static long gradients(Frame<CudaTensor> frame, int ranks, CudaStream cuda) {
        long[] addresses = new long[ranks];
        for (int r = 0; r < ranks; r++) {
            addresses[r] = frame.input(r).address();
        }
        return cuda.table(addresses);
    }
}
