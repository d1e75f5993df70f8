package dev.octet.trainer.op.shard;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** Bytes of zero, in every type. */
final class ZeroFillCuda implements CudaKernel.Forward<ZeroFill> {
    @Override
    public void forward(ZeroFill op, Frame<CudaTensor> frame, CudaStream cuda) {
        cuda.zero(frame.output(0).address(), op.y().byteSize());
    }
}
