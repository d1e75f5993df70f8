package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.List;

/** All parameters in one launch: 20 bytes of memory traffic for each F32 parameter, 12 read and 8 written. */
public final class LionStepCuda extends UpdateCuda<LionStep> {
    public LionStepCuda() {
        super(LionStep.class);
    }

    /** Weight decay may differ: it stands in each tensor's row. */
    @Override
    boolean belongTogether(LionStep first, LionStep other) {
        return first.p().dtype() == other.p().dtype()
                && first.beta1() == other.beta1()
                && first.beta2() == other.beta2();
    }

    @Override
    boolean shareScalars(Frame<CudaTensor> first, Frame<CudaTensor> other) {
        return sameInputs(first, other, 2, LionStep.MOMENT);
    }

    @Override
    void write(List<LionStep> ops, List<Frame<CudaTensor>> frames, CudaStream cuda) {
        Chunks chunks = new Chunks();
        for (int i = 0; i < ops.size(); i++) {
            Frame<CudaTensor> f = frames.get(i);
            long count = f.input(0).count();
            chunks.row(
                    count,
                    f.input(0).address(),
                    f.input(1).address(),
                    f.input(LionStep.MOMENT).address(),
                    f.output(0).address(),
                    f.output(1).address(),
                    count,
                    Double.doubleToRawLongBits(ops.get(i).weightDecay()));
        }
        LionStep op = ops.getFirst();
        Frame<CudaTensor> scalars = frames.getFirst();
        chunks.launch(
                cuda,
                "lion_" + scalars.input(0).suffix(),
                scalars.input(2),
                scalars.input(4),
                scalars.input(5),
                op.beta1(),
                op.beta2());
    }
}
