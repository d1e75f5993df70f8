package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.List;

/** All parameters in one launch: 28 bytes of memory traffic for each F32 parameter, 16 read and 12 written. */
public final class AdamStepCuda extends UpdateCuda<AdamStep> {
    public AdamStepCuda() {
        super(AdamStep.class);
    }

    /** Weight decay may differ: it stands in each tensor's row. */
    @Override
    boolean belongTogether(AdamStep first, AdamStep other) {
        return first.p().dtype() == other.p().dtype()
                && first.beta1() == other.beta1()
                && first.beta2() == other.beta2()
                && first.eps() == other.eps()
                && first.variant() == other.variant()
                && first.cycles() == other.cycles();
    }

    @Override
    boolean shareScalars(Frame<CudaTensor> first, Frame<CudaTensor> other) {
        return sameInputs(first, other, 4, 8); // β₁ of a step that cycles is the same for all, too
    }

    @Override
    void write(List<AdamStep> ops, List<Frame<CudaTensor>> frames, CudaStream cuda) {
        AdamStep op = ops.getFirst();
        Chunks chunks = new Chunks();
        for (int i = 0; i < ops.size(); i++) {
            Frame<CudaTensor> f = frames.get(i);
            long count = f.input(0).count();
            chunks.row(
                    count,
                    f.input(0).address(),
                    f.input(1).address(),
                    f.input(2).address(),
                    f.input(3).address(),
                    f.output(0).address(),
                    f.output(1).address(),
                    f.output(2).address(),
                    count,
                    Double.doubleToRawLongBits(ops.get(i).weightDecay()),
                    op.measuresRate() ? f.input(AdamStep.RATE).address() : 0);
        }
        Frame<CudaTensor> scalars = frames.getFirst();
        chunks.launch(
                cuda,
                "adam_" + scalars.input(0).suffix(),
                scalars.input(4),
                scalars.input(5),
                scalars.input(6),
                scalars.input(7),
                op.beta1(),
                op.beta2(),
                op.eps(),
                (op.decoupled() ? 1 : 0) | (op.isScaled() ? 2 : 0) | (op.corrects() ? 0 : 4),
                op.cycles() ? scalars.input(op.betaInput()) : 0L);
    }
}
