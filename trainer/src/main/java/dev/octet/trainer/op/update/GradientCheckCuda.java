package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.stream.IntStream;

/** One block; whether the step counts is decided on the device, so that no host has to wait for it. */
public final class GradientCheckCuda implements CudaKernel<GradientCheck> {
    @Override
    public void forward(GradientCheck op, Frame<CudaTensor> frame, CudaStream cuda) {
        long squares = cuda.table(IntStream.range(0, op.gradients())
                .mapToLong(i -> frame.input(GradientCheck.SQUARES + i).address())
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
                frame.output(GradientCheck.NORM),
                frame.output(GradientCheck.FACTOR),
                frame.output(GradientCheck.NON_FINITE),
                frame.output(GradientCheck.STEP));
    }

    @Override
    public void backward(GradientCheck op, Frame<CudaTensor> frame, CudaStream cuda) {
        throw new IllegalStateException("a check has no backward half");
    }
}
