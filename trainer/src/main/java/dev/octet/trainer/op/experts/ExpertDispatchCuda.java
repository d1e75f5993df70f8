package dev.octet.trainer.op.experts;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/**
 * One block gives slots their rows, a warp for each expert; nothing goes back to the host. Choices are not checked there: one outside of the experts
 * counts as the nearest.
 */
final class ExpertDispatchCuda implements CudaKernel<ExpertDispatch> {
    static final CudaSource SOURCE = CudaSource.of(ExpertDispatchCuda.class, "experts.cu");

    private static final int THREADS = 256;

    @Override
    public void forward(ExpertDispatch op, Frame<CudaTensor> frame, CudaStream cuda) {
        cuda.kernel(SOURCE, "expert_places", Grid.of(1, 1024))
                .typed("type", "chosen", frame.input(1))
                .pointer("places", frame.output(1))
                .pointer("offsets", frame.output(2))
                .value("slots", op.slots())
                .value("experts", op.experts())
                .launch();
        CudaTensor rows = frame.output(0);
        if (rows.count() == 0) {
            return;
        }
        cuda.kernel(SOURCE, "expert_rows_" + rows.suffix(), Grid.over(rows.count(), THREADS, 1))
                .pointer("x", frame.input(0))
                .pointer("places", frame.output(1))
                .pointer("rows", rows)
                .value("n", rows.count())
                .value("size", op.size())
                .value("choices", op.choices())
                .launch();
    }

    @Override
    public void backward(ExpertDispatch op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dx = frame.gradient(0);
        if (dx.count() == 0) {
            return;
        }
        if (!frame.hasUpstream(0)) {
            cuda.zero(dx.address(), dx.byteSize());
            return;
        }
        cuda.kernel(SOURCE, "expert_rows_back_" + dx.suffix(), Grid.over(dx.count(), THREADS, 1))
                .pointer("drows", frame.upstream(0))
                .pointer("places", frame.output(1))
                .pointer("dx", dx)
                .value("n", dx.count())
                .value("size", op.size())
                .value("choices", op.choices())
                .launch();
    }
}
