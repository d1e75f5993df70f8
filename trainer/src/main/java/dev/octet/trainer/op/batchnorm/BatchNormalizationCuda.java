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
        cuda.kernel(SOURCE, "batchnorm_forward_" + x.suffix(), Grid.over(x.count(), THREADS, 8))
                .pointer("x", x)
                .typed("type_s", "scale", frame.input(1))
                .typed("type_b", "bias", frame.input(2))
                .typed("type_m", "mean", frame.input(3))
                .typed("type_v", "variance", frame.input(4))
                .pointer("y", frame.output(0))
                .value("n", x.count())
                .value("channels", (long) op.channels())
                .value("inner", (long) op.inner())
                .value("epsilon", op.epsilon())
                .launch();
    }

    private static int code(CudaTensor t) {
        return CudaSource.code(t.dtype());
    }

    @Override
    public void backward(BatchNormalization op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        CudaTensor variance = frame.input(4);
        if (frame.wantsGradient(0)) {
            cuda.kernel(SOURCE, "batchnorm_backward_" + dy.suffix(), Grid.over(dy.count(), THREADS, 8))
                    .pointer("dy", dy)
                    .typed("type_s", "scale", frame.input(1))
                    .typed("type_v", "variance", variance)
                    .pointer("dx", frame.gradient(0))
                    .value("n", dy.count())
                    .value("channels", (long) op.channels())
                    .value("inner", (long) op.inner())
                    .value("epsilon", op.epsilon())
                    .launch();
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
        cuda.kernel(SOURCE, "batchnorm_sums_" + dy.suffix(), Grid.of(splits * channels, THREADS))
                .pointer("dy", dy)
                .pointer("x", frame.input(0))
                .typed("type_m", "mean", frame.input(3))
                .pointer("parts", parts)
                .value("samples", (long) op.samples())
                .value("channels", channels)
                .value("inner", (long) op.inner())
                .value("splits", splits)
                .value("chunk", Math.ceilDiv(each, splits))
                .launch();
        cuda.kernel(SOURCE, "batchnorm_join", Grid.over(channels, THREADS, 1))
                .pointer("parts", parts)
                .typed("type_v", "variance", frame.input(4))
                .value("type_ds", frame.wantsGradient(1) ? code(frame.gradient(1)) : 0)
                .pointer("dscale", frame.wantsGradient(1) ? frame.gradient(1).address() : 0L)
                .value("type_db", frame.wantsGradient(2) ? code(frame.gradient(2)) : 0)
                .pointer("dbias", frame.wantsGradient(2) ? frame.gradient(2).address() : 0L)
                .value("channels", channels)
                .value("splits", splits)
                .value("epsilon", op.epsilon())
                .launch();
    }
}
