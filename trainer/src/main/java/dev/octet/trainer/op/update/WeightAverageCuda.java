package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.List;

/** All averages of a kind in one launch; a step whose weights do not enter them reads nothing. */
public final class WeightAverageCuda extends UpdateCuda<WeightAverage> {
    public WeightAverageCuda() {
        super(WeightAverage.class);
    }

    @Override
    boolean belongTogether(WeightAverage first, WeightAverage other) {
        return first.p().dtype() == other.p().dtype()
                && first.decay() == other.decay()
                && first.start() == other.start()
                && first.every() == other.every();
    }

    @Override
    boolean shareScalars(Frame<CudaTensor> first, Frame<CudaTensor> other) {
        return sameInputs(first, other, 2, 4);
    }

    @Override
    void write(List<WeightAverage> ops, List<Frame<CudaTensor>> frames, CudaStream cuda) {
        Chunks chunks = new Chunks();
        for (Frame<CudaTensor> f : frames) {
            long count = f.input(0).count();
            chunks.row(
                    count,
                    f.input(0).address(),
                    f.input(1).address(),
                    f.output(0).address(),
                    count);
        }
        WeightAverage op = ops.getFirst();
        Frame<CudaTensor> scalars = frames.getFirst();
        chunks.launch(
                cuda,
                "weight_average_" + scalars.input(1).suffix(),
                scalars.input(2),
                scalars.input(3),
                op.decay(),
                (double) op.start(),
                (double) op.every());
    }
}
