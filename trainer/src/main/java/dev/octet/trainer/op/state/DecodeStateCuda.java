package dev.octet.trainer.op.state;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

final class DecodeStateCuda implements CudaKernel<DecodeState> {
    @Override
    public void forward(DecodeState op, Frame<CudaTensor> frame, CudaStream cuda) {
        throw new UnavailableException("not yet", op.type(), "use the CPU");
    }

    @Override
    public void backward(DecodeState op, Frame<CudaTensor> frame, CudaStream cuda) {
        throw new UnavailableException("not yet", op.type(), "use the CPU");
    }
}
