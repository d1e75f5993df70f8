package dev.octet.trainer.op.shard;

import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Op;

/**
 * A step of a model that the ranks of a group do together, each with its part of a tensor. It is read from a graph, which knows of no ranks, and gets them before its program
 * runs.
 */
public interface GroupOp extends Op {
    /** The same among these ranks. */
    Op among(Collectives ranks);

    /** The twin for GPUs: there is none yet, and runs that need it are refused before they start. */
    static <O extends Op> CudaKernel<O> noCuda() {
        return new CudaKernel<>() {
            @Override
            public void forward(O op, Frame<CudaTensor> frame, CudaStream cuda) {
                throw RankOp.noGpu(op);
            }

            @Override
            public void backward(O op, Frame<CudaTensor> frame, CudaStream cuda) {
                throw RankOp.noGpu(op);
            }
        };
    }
}
