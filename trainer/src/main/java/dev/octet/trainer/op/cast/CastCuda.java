package dev.octet.trainer.op.cast;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** Packs of 16 bytes of the wider type, four to a thread; through F32 like the other twins, integers to integers through I64. */
final class CastCuda implements CudaKernel<Cast> {
    /** As in the source. */
    private static final int THREADS = 256;

    private static final int PACKS = 4;

    @Override
    public void forward(Cast op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor x = frame.input(0);
        if (x.count() > 0) {
            cuda.launch(source(op), "cast_forward", grid(op), x, frame.output(0), x.count());
        }
    }

    @Override
    public void backward(Cast op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dx = frame.gradient(0);
        if (dx.count() > 0) {
            int add = frame.accumulates(0) ? 1 : 0;
            cuda.launch(source(op), "cast_backward", grid(op), frame.upstream(0), dx, dx.count(), add);
        }
    }

    static CudaSource source(Cast op) {
        DType from = op.from().dtype();
        return CudaSource.of(CastCuda.class, "cast.cu")
                .define("X_TYPE", CudaSource.type(from))
                .define("Y_TYPE", CudaSource.type(op.to()))
                .define("INTEGERS", from.isFloat() || op.to().isFloat() ? 0 : 1)
                .define("TRUTH", op.to() == DType.BOOL ? 1 : 0);
    }

    private static Grid grid(Cast op) {
        int bytes = Math.max(op.from().dtype().bits(), op.to().bits()) / 8;
        return Grid.over(op.from().count(), THREADS, PACKS * (16 / bytes));
    }
}
