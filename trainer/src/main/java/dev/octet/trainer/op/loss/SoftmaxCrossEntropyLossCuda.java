package dev.octet.trainer.op.loss;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.ArrayList;
import java.util.List;

/**
 * A block, or for up to 1024 classes a warp, has a position: it reads the scores once forward, once backward, in 16 bytes at a time even where a
 * row begins at no multiple of 16. Elements are never seen here, so a label that is not a class is not an error: its loss and gradient are NaN.
 */
final class SoftmaxCrossEntropyLossCuda implements CudaKernel<SoftmaxCrossEntropyLoss> {
    @Override
    public void forward(SoftmaxCrossEntropyLoss op, Frame<CudaTensor> frame, CudaStream cuda) {
        ClassLabels c = op.labels();
        CudaTensor loss = frame.output(0);
        CudaLoss all = CudaLoss.room(c.count(), cuda);
        all = c.reduction() == Reduction.NONE ? all.into(loss) : all;
        if (c.count() > 0) {
            launch(
                    "cross_entropy_forward",
                    op,
                    frame,
                    cuda,
                    frame.output(op.logSumOutput()),
                    all.losses(),
                    all.weights(),
                    op.givesLogarithms() ? frame.output(1) : (Object) 0L,
                    List.of(frame.input(0).pitch()));
        }
        all.reduce(c.reduction(), loss, frame.output(op.divisorOutput()), cuda);
    }

    @Override
    public void backward(SoftmaxCrossEntropyLoss op, Frame<CudaTensor> frame, CudaStream cuda) {
        writeGradient(op, frame, frame.gradient(0), cuda);
    }

    /** Backward, the gradient written to {@code dx}. */
    static void writeGradient(SoftmaxCrossEntropyLoss op, Frame<CudaTensor> frame, CudaTensor dx, CudaStream cuda) {
        if (op.labels().count() > 0) {
            launch(
                    "cross_entropy_backward",
                    op,
                    frame,
                    cuda,
                    frame.output(op.logSumOutput()),
                    frame.output(op.divisorOutput()),
                    frame.hasUpstream(0) ? frame.upstream(0) : (Object) 0L,
                    op.givesLogarithms() && frame.hasUpstream(1) ? frame.upstream(1) : (Object) 0L,
                    dx,
                    List.of(frame.input(0).pitch(), dx.pitch()),
                    op.labels().reduction() == Reduction.NONE ? 1 : 0);
        }
    }

    @Override
    public boolean takesLongRows(SoftmaxCrossEntropyLoss op, int i) {
        return i == 0 && op.labels().inner() == 1;
    }

    /** @param more arguments behind the operands; a list has pitches */
    private static void launch(
            String kernel, SoftmaxCrossEntropyLoss op, Frame<CudaTensor> frame, CudaStream cuda, Object... more) {
        ClassLabels c = op.labels();
        DType x = frame.input(0).dtype();
        CudaSource source = CudaLoss.classes(frame, x, x, 1, 2, c.classes());
        List<Object> arguments = new ArrayList<>(List.of(frame.input(0), frame.input(1), CudaLoss.input(frame, 2)));
        for (Object argument : more) {
            if (!(argument instanceof List<?> pitches)) {
                arguments.add(argument);
            } else if (c.inner() == 1) { // kernels of columns have no pitches
                arguments.addAll(pitches);
            }
        }
        arguments.add((long) c.count());
        if (c.inner() > 1) {
            arguments.add((long) c.inner());
        }
        c.addRule(arguments);
        arguments.add(op.smoothing());
        if (c.inner() > 1) {
            Grid grid = Grid.over(c.count(), CudaLoss.THREADS, 1);
            cuda.launch(source, kernel + "_columns", grid, arguments.toArray());
        } else {
            cuda.launch(source, kernel, CudaLoss.rows(c.count(), c.classes()), arguments.toArray());
        }
    }
}
