package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** One launch, eight codes to a thread. */
final class DequantizeFp8Cuda implements CudaKernel.Forward<DequantizeFp8> {
    @Override
    public void forward(DequantizeFp8 op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor y = frame.output(0);
        if (y.count() > 0) {
            CudaCodes.decode(
                    frame.input(0).address(), op.form(), frame.input(1).address(), y.dtype(), y.address(), cuda);
        }
    }
}
