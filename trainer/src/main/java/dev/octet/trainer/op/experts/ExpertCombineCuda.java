package dev.octet.trainer.op.experts;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** A thread for each element of a token, and backward of a row; a warp for the gradient of each weight. */
final class ExpertCombineCuda implements CudaKernel<ExpertCombine> {
    private static final int THREADS = 256;

    @Override
    public void forward(ExpertCombine op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor y = frame.output(0);
        if (y.count() == 0) {
            return;
        }
        cuda.kernel(ExpertDispatchCuda.SOURCE, "expert_sums_" + y.suffix(), Grid.over(y.count(), THREADS, 1))
                .pointer("rows", frame.input(0))
                .pointer("places", frame.input(1))
                .typed("type", "weights", frame.input(2))
                .pointer("y", y)
                .value("n", y.count())
                .value("size", op.size())
                .value("choices", op.choices())
                .launch();
    }

    @Override
    public void backward(ExpertCombine op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        CudaTensor places = frame.input(1);
        if (dy.count() == 0) {
            return;
        }
        if (frame.wantsGradient(0)) {
            CudaTensor drows = frame.gradient(0);
            Grid grid = Grid.over(drows.count(), THREADS, 1);
            cuda.kernel(ExpertDispatchCuda.SOURCE, "expert_sums_back_" + dy.suffix(), grid)
                    .pointer("dy", dy)
                    .pointer("places", places)
                    .typed("type", "weights", frame.input(2))
                    .pointer("drows", drows)
                    .value("n", drows.count())
                    .value("size", op.size())
                    .value("choices", op.choices())
                    .launch();
        }
        if (frame.wantsGradient(2)) {
            long slots = places.count();
            cuda.kernel(ExpertDispatchCuda.SOURCE, "expert_weights_" + dy.suffix(), Grid.over(32 * slots, THREADS, 1))
                    .pointer("dy", dy)
                    .pointer("rows", frame.input(0))
                    .pointer("places", places)
                    .typed("type", "dweights", frame.gradient(2))
                    .value("slots", slots)
                    .value("size", op.size())
                    .value("choices", op.choices())
                    .launch();
        }
    }
}
