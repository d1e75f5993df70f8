package dev.octet.trainer.op.shard;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Op;

/** An operator that only the graph of a rank has which shares layers with others; no model is exported with it. */
public interface CutOp extends Op {
    /** The twin for GPUs: there is none yet, and runs that need it are refused before they start. */
    static <O extends CutOp> CudaKernel<O> noCuda() {
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
