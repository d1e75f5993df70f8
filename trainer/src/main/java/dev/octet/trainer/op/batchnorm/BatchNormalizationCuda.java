package dev.octet.trainer.op.batchnorm;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** Eight elements a thread; the sums of a channel in two stages, cut by shapes alone. */
final class BatchNormalizationCuda implements CudaKernel<BatchNormalization> {
    private static final CudaSource SOURCE = CudaSource.of(BatchNormalizationCuda.class, "batchnorm.cu");
    private static final int THREADS = 256;

    /** Blocks that keep a large GPU busy. */
    private static final long BLOCKS = 1024;

    /** Fewest elements a block adds. */
    private static final long LEAST = 8 * THREADS;

    @Override
    public void forward(BatchNormalization op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor x = frame.input(0);
        cuda.launch(
                SOURCE,
                "batchnorm_forward_" + x.suffix(),
                Grid.over(x.count(), THREADS, 8),
                x,
                code(frame.input(1)),
                frame.input(1),
                code(frame.input(2)),
                frame.input(2),
                code(frame.input(3)),
                frame.input(3),
                code(frame.input(4)),
                frame.input(4),
                frame.output(0),
                x.count(),
                (long) op.channels(),
                (long) op.inner(),
                op.epsilon());
    }

    private static int code(CudaTensor t) {
        return CudaSource.code(t.dtype());
    }

    @Override
    public void backward(BatchNormalization op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        CudaTensor variance = frame.input(4);
        if (frame.wantsGradient(0)) {
            cuda.launch(
                    SOURCE,
                    "batchnorm_backward_" + dy.suffix(),
                    Grid.over(dy.count(), THREADS, 8),
                    dy,
                    code(frame.input(1)),
                    frame.input(1),
                    code(variance),
                    variance,
                    frame.gradient(0),
                    dy.count(),
                    (long) op.channels(),
                    (long) op.inner(),
                    op.epsilon());
        }
        if (frame.wantsGradient(1) || frame.wantsGradient(2)) {
            sums(op, frame, dy, cuda);
        }
    }

    private static void sums(BatchNormalization op, Frame<CudaTensor> frame, CudaTensor dy, CudaStream cuda) {
        long channels = op.channels();
        if (channels == 0) {
            return;
        }
        long each = (long) op.samples() * op.inner();
        long splits = Math.max(1, Math.min(Math.ceilDiv(each, LEAST), BLOCKS / channels));
        long parts = cuda.workspace(2 * splits * channels * Float.BYTES);
        cuda.launch(
                SOURCE,
                "batchnorm_sums_" + dy.suffix(),
                Grid.of(splits * channels, THREADS),
                dy,
                frame.input(0),
                code(frame.input(3)),
                frame.input(3),
                parts,
                (long) op.samples(),
                channels,
                (long) op.inner(),
                splits,
                Math.ceilDiv(each, splits));
        cuda.launch(
                SOURCE,
                "batchnorm_join",
                Grid.over(channels, THREADS, 1),
                parts,
                code(frame.input(4)),
                frame.input(4),
                frame.wantsGradient(1) ? code(frame.gradient(1)) : 0,
                frame.wantsGradient(1) ? frame.gradient(1).address() : 0L,
                frame.wantsGradient(2) ? code(frame.gradient(2)) : 0,
                frame.wantsGradient(2) ? frame.gradient(2).address() : 0L,
                channels,
                splits,
                op.epsilon());
    }
}
