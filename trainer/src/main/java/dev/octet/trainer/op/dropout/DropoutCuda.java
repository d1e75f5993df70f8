package dev.octet.trainer.op.dropout;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** Sixteen bytes a thread. */
final class DropoutCuda implements CudaKernel<Dropout> {
    /** As in the source. */
    private static final int THREADS = 256;

    @Override
    public void forward(Dropout op, Frame<CudaTensor> frame, CudaStream cuda) {
        keep(op, frame.input(1), frame.input(0), frame.output(0), cuda);
    }

    @Override
    public void backward(Dropout op, Frame<CudaTensor> frame, CudaStream cuda) {
        keep(op, frame.input(1), frame.upstream(0), frame.gradient(0), cuda);
    }

    private static void keep(Dropout op, CudaTensor draw, CudaTensor from, CudaTensor to, CudaStream cuda) {
        if (to.count() == 0) {
            return;
        }
        cuda.launch(
                CudaSource.of(DropoutCuda.class, "dropout.cu").define("TYPE", CudaSource.type(to.dtype())),
                "dropout",
                Grid.over(to.count(), THREADS, 128 / to.dtype().bits()),
                from,
                to,
                to.count(),
                draw,
                op.seed(),
                op.threshold(),
                op.factor());
    }
}
