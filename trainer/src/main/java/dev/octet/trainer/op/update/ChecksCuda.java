package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.stream.IntStream;

/** The twins that look at a few numbers: whether the step counts is decided on the device, so that no host has to wait for it. */
final class ChecksCuda {
    private ChecksCuda() {}

    /** One thread. */
    static void lossCheck(LossCheck op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor loss = frame.input(0);
        int type = CudaSource.code(loss.dtype());
        cuda.launch(Chunks.SOURCE, "loss_check", Grid.of(1, 32), type, loss, frame.input(1), frame.output(0));
    }

    /** One block. */
    static void finiteGradients(FiniteGradients op, Frame<CudaTensor> frame, CudaStream cuda) {
        long squares = cuda.table(IntStream.range(0, op.gradients())
                .mapToLong(i -> frame.input(FiniteGradients.SQUARES + i).address())
                .toArray());
        cuda.launch(
                Chunks.SOURCE,
                "gradient_check",
                Grid.of(1, 256),
                squares,
                op.gradients(),
                frame.input(0),
                frame.input(1),
                frame.input(2),
                op.maxNorm(),
                frame.output(FiniteGradients.NORM),
                frame.output(FiniteGradients.FACTOR),
                frame.output(FiniteGradients.NON_FINITE),
                frame.output(FiniteGradients.STEP));
    }
}
