package dev.octet.trainer.op.loss;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * A block, or for up to 1024 classes a warp, has a position and reads student and teacher once in either direction. A label that is not a class
 * makes the loss and its position's gradient NaN.
 */
final class KlDivergenceLossCuda implements CudaKernel<KlDivergenceLoss> {
    @Override
    public void forward(KlDivergenceLoss op, Frame<CudaTensor> frame, CudaStream cuda) {
        ClassLabels c = op.positions();
        CudaLoss all = CudaLoss.room(c.count(), cuda);
        float inverse = 1 / op.temperature();
        if (c.count() > 0) {
            launch(
                    "kl_forward",
                    op,
                    frame,
                    cuda,
                    frame.output(1),
                    frame.output(2),
                    all.losses(),
                    all.weights(),
                    inverse);
        }
        all.mean(op.temperature() * op.temperature(), frame.output(0), frame.output(3), cuda);
    }

    @Override
    public void backward(KlDivergenceLoss op, Frame<CudaTensor> frame, CudaStream cuda) {
        if (op.positions().count() > 0) {
            launch(
                    "kl_backward",
                    op,
                    frame,
                    cuda,
                    frame.output(1),
                    frame.output(2),
                    frame.output(3),
                    frame.upstream(0),
                    frame.gradient(0),
                    op.temperature(),
                    1 / op.temperature());
        }
    }

    private static void launch(
            String kernel, KlDivergenceLoss op, Frame<CudaTensor> frame, CudaStream cuda, Object... more) {
        ClassLabels c = op.positions();
        CudaTensor x = frame.input(0);
        CudaTensor t = frame.input(1);
        CudaSource source = CudaLoss.classes(frame, x.dtype(), t.dtype(), 2, 3, c.classes());
        // labels decide where there are both
        List<Object> arguments = new ArrayList<>(List.of(x, t, CudaLoss.input(frame, 2), CudaLoss.input(frame, 3)));
        arguments.addAll(Arrays.asList(more));
        arguments.add((long) c.count());
        c.addRule(arguments);
        cuda.launch(source, kernel, CudaLoss.rows(c.count(), c.classes()), arguments.toArray());
    }
}
