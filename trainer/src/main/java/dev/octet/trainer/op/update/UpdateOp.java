package dev.octet.trainer.op.update;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.ReferenceKernel;

/** An operator without a backward half. */
public sealed interface UpdateOp extends ForwardOp
        permits SquareSum,
                CodedSquareSum,
                LossCheck,
                FiniteGradients,
                UpdateRms,
                TrustRatio,
                AdamStep,
                AdafactorStep,
                LionStep,
                MuonMomentum,
                MuonScale,
                MuonStep,
                SgdStep,
                CodedStep,
                WeightAverage,
                RankAverage,
                CodedRankAverage {
    /** One F32 number. */
    OperandType SCALAR = new OperandType(DType.F32, Shape.SCALAR);

    /** The row of an update in the table of operators. */
    static <O extends UpdateOp> OpEntry<O> entry(
            Class<O> op, ReferenceKernel.Forward<O> reference, CpuKernel.Forward<O> cpu, CudaKernel.Forward<O> cuda) {
        return OpEntry.of(op, reference, cpu, cuda);
    }
}
