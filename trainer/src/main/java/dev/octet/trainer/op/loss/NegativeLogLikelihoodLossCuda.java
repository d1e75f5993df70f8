package dev.octet.trainer.op.loss;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.ArrayList;
import java.util.List;

/** A thread has a position. A label that is not a class makes its loss and gradient NaN. */
final class NegativeLogLikelihoodLossCuda implements CudaKernel<NegativeLogLikelihoodLoss> {
    @Override
    public void forward(NegativeLogLikelihoodLoss op, Frame<CudaTensor> frame, CudaStream cuda) {
        ClassLabels c = op.labels();
        CudaTensor loss = frame.output(0);
        CudaLoss all = CudaLoss.room(c.count(), cuda);
        all = c.reduction() == Reduction.NONE ? all.into(loss) : all;
        if (c.count() > 0) {
            List<Object> arguments = new ArrayList<>(List.of(
                    frame.input(0),
                    frame.input(1),
                    CudaLoss.input(frame, 2),
                    all.losses(),
                    all.weights(),
                    (long) c.count(),
                    (long) c.inner()));
            launch("likelihood_forward", c, source(op, frame, frame.input(0)), arguments, cuda);
        }
        all.reduce(c.reduction(), loss, frame.output(1), cuda);
    }

    @Override
    public void backward(NegativeLogLikelihoodLoss op, Frame<CudaTensor> frame, CudaStream cuda) {
        ClassLabels c = op.labels();
        CudaTensor dx = frame.gradient(0);
        if (dx.count() == 0) {
            return;
        }
        cuda.zero(dx.address(), dx.byteSize());
        if (frame.hasUpstream(0)) {
            List<Object> arguments = new ArrayList<>(List.of(
                    frame.input(1),
                    CudaLoss.input(frame, 2),
                    frame.output(1),
                    frame.upstream(0),
                    dx,
                    c.reduction() == Reduction.NONE ? 1 : 0,
                    (long) c.count(),
                    (long) c.inner()));
            launch("likelihood_backward", c, source(op, frame, dx), arguments, cuda);
        }
    }

    private static void launch(
            String kernel, ClassLabels c, CudaSource source, List<Object> arguments, CudaStream cuda) {
        c.addRule(arguments);
        cuda.launch(source, kernel, Grid.over(c.count(), CudaLoss.THREADS, 1), arguments.toArray());
    }

    private static CudaSource source(NegativeLogLikelihoodLoss op, Frame<CudaTensor> frame, CudaTensor x) {
        return CudaLoss.classes(frame, x.dtype(), x.dtype(), 1, 2, op.labels().classes());
    }
}
