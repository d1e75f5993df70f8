package dev.octet.trainer.op.gather;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.gather.GatherCuda.Table;

/** As a lookup in a whole table; rows of others are zero, and get no gradient. */
final class CutGatherCuda implements CudaKernel<CutGather> {
    @Override
    public void forward(CutGather op, Frame<CudaTensor> frame, CudaStream cuda) {
        GatherCuda.forward(op.rows(), new Table(op.first(), op.all()), frame, cuda);
    }

    @Override
    public void backward(CutGather op, Frame<CudaTensor> frame, CudaStream cuda) {
        GatherCuda.backward(op.rows(), new Table(op.first(), op.all()), frame, cuda);
    }
}
