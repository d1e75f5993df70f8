package dev.octet.trainer.op.update;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

final class CodedStepCuda implements CudaKernel.Forward<CodedStep> {
    @Override
    public void forward(CodedStep op, Frame<CudaTensor> frame, CudaStream cuda) {
        throw new UnavailableException("not yet", op.type(), "use the CPU");
    }
}
