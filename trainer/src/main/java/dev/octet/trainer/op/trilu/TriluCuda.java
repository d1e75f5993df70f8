package dev.octet.trainer.op.trilu;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** Sixteen bytes a thread, whatever the type. */
final class TriluCuda implements CudaKernel<Trilu> {
    private static final CudaSource SOURCE = CudaSource.of(TriluCuda.class, "trilu.cu");

    @Override
    public void forward(Trilu op, Frame<CudaTensor> frame, CudaStream cuda) {
        keep(op, frame.input(0), frame.output(0), cuda);
    }

    @Override
    public void backward(Trilu op, Frame<CudaTensor> frame, CudaStream cuda) {
        keep(op, frame.upstream(0), frame.gradient(0), cuda);
    }

    private static void keep(Trilu op, CudaTensor from, CudaTensor to, CudaStream cuda) {
        int width = to.dtype().bits() / 8;
        cuda.launch(
                SOURCE,
                "trilu_" + width,
                Grid.over(to.count(), 256, 16 / width),
                from,
                to,
                to.count(),
                op.rows(),
                op.columns(),
                op.diagonal(),
                op.upper() ? 1 : 0);
    }
}
