package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** One thread. */
final class LossCheckCuda implements CudaKernel<LossCheck> {
    @Override
    public void forward(LossCheck op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor loss = frame.input(0);
        cuda.launch(
                Chunks.SOURCE,
                "loss_check",
                Grid.of(1, 32),
                CudaSource.code(loss.dtype()),
                loss,
                frame.input(1),
                frame.output(0));
    }

    @Override
    public void backward(LossCheck op, Frame<CudaTensor> frame, CudaStream cuda) {
        throw new IllegalStateException("a check has no backward half");
    }
}
