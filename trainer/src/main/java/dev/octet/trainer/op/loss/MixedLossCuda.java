package dev.octet.trainer.op.loss;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** One thread. */
final class MixedLossCuda implements CudaKernel<MixedLoss> {
    private static final CudaSource SOURCE = CudaSource.of(MixedLossCuda.class, "mixed_loss.cu");

    private static final Grid ONE = Grid.of(1, 32);

    @Override
    public void forward(MixedLoss op, Frame<CudaTensor> frame, CudaStream cuda) {
        cuda.launch(
                SOURCE,
                "mixed_loss_forward",
                ONE,
                frame.input(0),
                frame.input(1),
                frame.output(0),
                op.weight(0),
                op.weight(1));
    }

    @Override
    public void backward(MixedLoss op, Frame<CudaTensor> frame, CudaStream cuda) {
        for (int i = 0; i < 2; i++) {
            if (frame.wantsGradient(i)) {
                cuda.launch(SOURCE, "mixed_loss_backward", ONE, frame.upstream(0), frame.gradient(i), op.weight(i));
            }
        }
    }
}
