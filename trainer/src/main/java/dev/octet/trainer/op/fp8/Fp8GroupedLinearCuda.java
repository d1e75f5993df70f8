package dev.octet.trainer.op.fp8;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** There are no kernels yet that cast rows expert by expert. */
final class Fp8GroupedLinearCuda implements CudaKernel<Fp8GroupedLinear> {
    @Override
    public void forward(Fp8GroupedLinear op, Frame<CudaTensor> frame, CudaStream cuda) {
        throw none();
    }

    @Override
    public void backward(Fp8GroupedLinear op, Frame<CudaTensor> frame, CudaStream cuda) {
        throw none();
    }

    private static UnavailableException none() {
        return new UnavailableException(
                "experts are computed in FP8 on the CPU alone so far",
                "experts in FP8 on a GPU",
                "train on the CPU, or keep experts in the type of autocast: precision.layers: [{match: experts, fp8:"
                        + " false}]");
    }
}
