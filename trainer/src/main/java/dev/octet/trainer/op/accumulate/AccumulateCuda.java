package dev.octet.trainer.op.accumulate;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** Packs of 16 bytes, four to a thread: the sum is bound by memory alone. In place when y is a. */
final class AccumulateCuda implements CudaKernel<Accumulate> {
    /** As in the source. */
    private static final int THREADS = 256;

    private static final int PACKS = 4;

    @Override
    public void forward(Accumulate op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor a = frame.input(0);
        CudaTensor x = frame.input(1);
        CudaTensor y = frame.output(0);
        if (y.count() > 0) {
            cuda.launch(source(a, x), "accumulate_forward", grid(a, x), a, x, y, y.count());
        }
    }

    @Override
    public void backward(Accumulate op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        for (int i = 0; i < 2; i++) {
            if (frame.wantsGradient(i) && dy.count() > 0) {
                CudaTensor dx = frame.gradient(i);
                cuda.launch(source(dy, dx), "accumulate_backward", grid(dy, dx), dy, dx, dy.count());
            }
        }
    }

    private static CudaSource source(CudaTensor a, CudaTensor x) {
        return CudaSource.of(AccumulateCuda.class, "accumulate.cu")
                .define("A_TYPE", CudaSource.type(a.dtype()))
                .define("X_TYPE", CudaSource.type(x.dtype()));
    }

    private static Grid grid(CudaTensor a, CudaTensor x) {
        return Grid.over(a.count(), THREADS, PACKS * (16 / Math.max(bytes(a.dtype()), bytes(x.dtype()))));
    }

    private static int bytes(DType type) {
        return type.bits() / 8;
    }
}
