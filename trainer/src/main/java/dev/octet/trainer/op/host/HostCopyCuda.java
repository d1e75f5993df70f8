package dev.octet.trainer.op.host;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** Copies to and from pinned memory, in lanes of their own. */
final class HostCopyCuda implements CudaKernel.Forward<HostCopy> {
    @Override
    public void forward(HostCopy op, Frame<CudaTensor> frame, CudaStream cuda) {
        switch (op.stage()) {
            case LEAVE -> cuda.toHost(frame.input(0), frame.output(0));
            case LEFT -> cuda.awaitHost(frame.input(1));
            case COME_BACK -> cuda.fromHost(frame.input(0), frame.output(0));
            case BACK -> cuda.awaitHost(frame.input(0));
        }
    }
}
