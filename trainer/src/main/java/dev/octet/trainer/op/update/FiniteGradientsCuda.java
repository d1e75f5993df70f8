package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.stream.IntStream;

/** One block; whether the step counts is decided on the device, so that no host has to wait for it. */
final class FiniteGradientsCuda implements CudaKernel<FiniteGradients> {
    @Override
    public void forward(FiniteGradients op, Frame<CudaTensor> frame, CudaStream cuda) {
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

    @Override
    public void backward(FiniteGradients op, Frame<CudaTensor> frame, CudaStream cuda) {
        throw new IllegalStateException("a check has no backward half");
    }
}
