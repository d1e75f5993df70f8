package dev.octet.trainer.op.elements;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** Rows are found first, then read, or added in the order of the indices, as {@link dev.octet.trainer.op.gather.GatherCuda} does. */
final class GatherElementsCuda implements CudaKernel<GatherElements> {
    @Override
    public void forward(GatherElements op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor y = frame.output(0);
        if (y.count() > 0) {
            RowsCuda.find(op.places(), op.x(), frame.input(1), cuda).read(frame.input(0), y, cuda);
        }
    }

    @Override
    public void backward(GatherElements op, Frame<CudaTensor> frame, CudaStream cuda) {
        RowsCuda.find(op.places(), op.x(), frame.input(1), cuda).add(frame.upstream(0), frame.gradient(0), false, cuda);
    }
}
