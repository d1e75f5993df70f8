package dev.octet.trainer.op.update;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

final class CodedSquareSumCuda implements CudaKernel.Forward<CodedSquareSum> {
    @Override
    public void forward(CodedSquareSum op, Frame<CudaTensor> frame, CudaStream cuda) {
        throw new UnavailableException("not yet", op.type(), "use the CPU");
    }
}
