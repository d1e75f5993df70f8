package dev.octet.trainer.op.topk;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** A warp for each line, which it passes once for each of the k places: made for routers, whose lines and k are short. */
final class TopKCuda implements CudaKernel<TopK> {
    private static final CudaSource SOURCE = CudaSource.of(TopKCuda.class, "topk.cu");

    @Override
    public void forward(TopK op, Frame<CudaTensor> frame, CudaStream cuda) {
        if (op.lines() == 0) {
            return;
        }
        cuda.kernel(SOURCE, "topk_forward", Grid.over(32 * op.lines(), 256, 1))
                .typed("type", "x", frame.input(0))
                .pointer("y", frame.output(0))
                .pointer("indices", frame.output(1))
                .value("lines", op.lines())
                .value("size", op.size())
                .value("inner", op.inner())
                .value("k", op.k())
                .flag("largest", op.largest())
                .launch();
    }

    @Override
    public void backward(TopK op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dx = frame.gradient(0);
        cuda.zero(dx.address(), dx.byteSize());
        if (op.lines() == 0 || !frame.hasUpstream(0)) {
            return;
        }
        CudaTensor dy = frame.upstream(0);
        cuda.kernel(SOURCE, "topk_backward", Grid.over(dy.count(), 256, 1))
                .typed("type", "dy", dy)
                .pointer("indices", frame.output(1))
                .pointer("dx", dx)
                .value("n", dy.count())
                .value("size", op.size())
                .value("inner", op.inner())
                .value("k", op.k())
                .launch();
    }
}
