package dev.octet.trainer.op.shard;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

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

    /** The twin for GPUs: there is none yet, and runs of several ranks are refused there before they start. */
    static <O extends ForwardOp> CudaKernel.Forward<O> cuda() {
        return (op, _, _) -> {
            throw noGpu(op);
        };
    }

    /** What such a step says on a GPU. */
    static UnavailableException noGpu(Op op) {
        return new UnavailableException(
                "ranks exchange values in the memory of the host, on the CPU alone so far",
                op.type() + " on a GPU",
                "train on the CPU, or leave the launcher out");
    }
}
