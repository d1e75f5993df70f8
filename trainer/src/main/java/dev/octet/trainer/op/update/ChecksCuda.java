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
        cuda.kernel(Chunks.SOURCE, "gradient_check", Grid.of(1, 256))
                .pointer("squares", squares)
                .value("count", op.gradients())
                .pointer("unscale", frame.input(0))
                .pointer("step", frame.input(1))
                .pointer("bad_loss", frame.input(2))
                .value("max_norm", op.maxNorm())
                .pointer("norm", frame.output(FiniteGradients.NORM))
                .pointer("factor", frame.output(FiniteGradients.FACTOR))
                .pointer("non_finite", frame.output(FiniteGradients.NON_FINITE))
                .pointer("next_step", frame.output(FiniteGradients.STEP))
                .launch();
    }
}
