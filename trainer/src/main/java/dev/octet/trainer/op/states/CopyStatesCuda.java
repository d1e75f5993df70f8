package dev.octet.trainer.op.states;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** Copies within the device, which a recorded graph starts together. */
final class CopyStatesCuda implements CudaKernel.Forward<CopyStates> {
    @Override
    public void forward(CopyStates op, Frame<CudaTensor> frame, CudaStream cuda) {
        for (int i = 0; i < op.states().size(); i++) {
            cuda.copy(
                    frame.input(i).address(),
                    frame.output(i).address(),
                    frame.input(i).byteSize());
        }
    }
}
