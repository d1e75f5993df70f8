package dev.octet.trainer.op.shard;

import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaOnHost;
import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import java.util.function.ToIntFunction;

/**
 * A step that all ranks do together, at the same place of their programs. Its tensors have owners; those of one owner travel side by side, in their order.
 */
sealed interface RankOp extends ForwardOp permits AverageShares, ShareValues, SumNumbers {
    /** Types of all tensors. */
    List<OperandType> tensors();

    /** The rank that owns each. */
    List<Integer> owners();

    /** The rank that does the step. */
    int rank();

    /** All ranks. */
    Collectives world();

    /** @throws IllegalArgumentException when not every tensor has an owner */
    static void requireOwners(List<OperandType> tensors, List<Integer> owners) {
        if (tensors.size() != owners.size()) {
            throw new IllegalArgumentException(tensors.size() + " tensors with " + owners.size() + " owners");
        }
    }

    /**
     * The twin for GPUs: what ranks exchange passes through memory of the host.
     *
     * @param inputs how many the operator has
     */
    static <O extends ForwardOp> CudaKernel.Forward<O> onHost(CpuKernel<O> twin, ToIntFunction<O> inputs) {
        CudaKernel<O> onHost = new CudaOnHost<>(twin, inputs);
        return onHost::forward;
    }
}
