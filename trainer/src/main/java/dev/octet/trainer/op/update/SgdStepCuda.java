package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.List;

/** All parameters in one launch. */
public final class SgdStepCuda extends UpdateCuda<SgdStep> {
    public SgdStepCuda() {
        super(SgdStep.class);
    }

    @Override
    boolean belongTogether(SgdStep first, SgdStep other) {
        return first.p().dtype() == other.p().dtype()
                && first.momentum() == other.momentum()
                && first.dampening() == other.dampening()
                && first.nesterov() == other.nesterov();
    }

    @Override
    boolean shareScalars(Frame<CudaTensor> first, Frame<CudaTensor> other) {
        return sameInputs(first, other, 2, 6);
    }

    @Override
    void write(List<SgdStep> ops, List<Frame<CudaTensor>> frames, CudaStream cuda) {
        Chunks chunks = new Chunks();
        for (int i = 0; i < ops.size(); i++) {
            Frame<CudaTensor> f = frames.get(i);
            boolean buffer = ops.get(i).hasBuffer();
            long count = f.input(0).count();
            chunks.row(
                    count,
                    f.input(0).address(),
                    f.input(1).address(),
                    buffer ? f.input(SgdStep.BUFFER).address() : 0,
                    f.output(0).address(),
                    buffer ? f.output(1).address() : 0,
                    count,
                    Double.doubleToRawLongBits(ops.get(i).weightDecay()));
        }
        SgdStep op = ops.getFirst();
        Frame<CudaTensor> scalars = frames.getFirst();
        chunks.launch(
                cuda,
                "sgd_" + scalars.input(0).suffix(),
                scalars.input(2),
                scalars.input(3),
                scalars.input(4),
                scalars.input(5),
                (float) op.momentum(),
                (float) op.dampening(),
                op.nesterov() ? 1 : 0);
    }
}
