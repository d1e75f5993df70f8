package dev.octet.trainer.op.view;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** A copy within the device, for where input and output cannot share memory; nothing where they do. */
final class ViewCuda implements CudaKernel<View> {
    @Override
    public void forward(View op, Frame<CudaTensor> frame, CudaStream cuda) {
        copy(frame.input(0), frame.output(0), cuda);
    }

    @Override
    public void backward(View op, Frame<CudaTensor> frame, CudaStream cuda) {
        copy(frame.upstream(0), frame.gradient(0), cuda);
    }

    private static void copy(CudaTensor from, CudaTensor to, CudaStream cuda) {
        if (to.byteSize() > 0 && from.address() != to.address()) {
            cuda.copy(from.address(), to.address(), to.byteSize());
        }
    }
}
