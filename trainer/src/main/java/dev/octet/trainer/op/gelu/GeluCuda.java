package dev.octet.trainer.op.gelu;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** Eight elements a thread; the functions of CUDA's mathematics library, whose errors are at most 2 units in the last place. */
final class GeluCuda implements CudaKernel<Gelu> {
    private static final CudaSource SOURCE = CudaSource.of(GeluCuda.class, "gelu.cu");

    @Override
    public void forward(Gelu op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor x = frame.input(0);
        cuda.launch(
                SOURCE,
                "gelu_forward_" + x.suffix(),
                Grid.over(x.count(), 256, 8),
                x,
                frame.output(0),
                x.count(),
                op.tanh() ? 1 : 0);
    }

    @Override
    public void backward(Gelu op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor x = frame.input(0);
        cuda.launch(
                SOURCE,
                "gelu_backward_" + x.suffix(),
                Grid.over(x.count(), 256, 8),
                x,
                frame.upstream(0),
                frame.gradient(0),
                x.count(),
                op.tanh() ? 1 : 0);
    }
}
