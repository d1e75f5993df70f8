package dev.octet.trainer.op.qat;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** A block of threads a sample. */
final class GradientQuantizeCuda implements CudaKernel<GradientQuantize> {
    /** As in the source. */
    private static final int THREADS = 256;

    @Override
    public void forward(GradientQuantize op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor x = frame.input(0);
        cuda.copy(x.address(), frame.output(0).address(), x.byteSize());
    }

    @Override
    public void backward(GradientQuantize op, Frame<CudaTensor> frame, CudaStream cuda) {
        if (op.x().count() == 0) {
            return;
        }
        cuda.kernel(
                        CudaSource.of(GradientQuantizeCuda.class, "gradient.cu")
                                .define("TYPE", CudaSource.type(op.x().dtype())),
                        "gradient_codes",
                        Grid.of(op.samples(), THREADS))
                .pointer("dy", frame.upstream(0))
                .pointer("dx", frame.gradient(0))
                .value("size", op.size())
                .pointer("draw", frame.input(1))
                .value("seed", op.seed())
                .value("largest", op.largest())
                .launch();
    }
}
