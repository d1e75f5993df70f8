package dev.octet.trainer.op.expand;

import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.copy.CudaCopy;
import dev.octet.trainer.op.reduce.ReduceCuda;

/** Forward copies bytes, whatever the type; the gradient is a sum over the repeated axes. */
final class ExpandCuda implements CudaKernel<Expand> {
    @Override
    public void forward(Expand op, Frame<CudaTensor> frame, CudaStream cuda) {
        Broadcast broadcast = op.broadcast();
        long[] lengths = broadcast.lengths();
        long[] steps = new long[lengths.length];
        long step = 1;
        for (int d = lengths.length - 1; d >= 0; d--) {
            steps[d] = step;
            step *= lengths[d];
        }
        new CudaCopy(lengths, 0, broadcast.steps(0), 0, steps).write(frame.input(0), frame.output(0), cuda);
    }

    @Override
    public void backward(Expand op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        CudaTensor dx = frame.gradient(0);
        if (op.broadcast().isWhole(0)) {
            cuda.copy(dy.address(), dx.address(), dx.byteSize());
        } else {
            ReduceCuda.sum(op.broadcast(), dy, dx, cuda);
        }
    }
}
