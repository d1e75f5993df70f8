package dev.octet.trainer.op.states;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Tensor by tensor. */
final class CopyStatesCpu implements CpuKernel.Forward<CopyStates> {
    @Override
    public void forward(CopyStates op, Frame<CpuTensor> frame, CpuContext cpu) {
        for (int i = 0; i < op.states().size(); i++) {
            frame.output(i).bytes().copyFrom(frame.input(i).bytes());
        }
    }
}
