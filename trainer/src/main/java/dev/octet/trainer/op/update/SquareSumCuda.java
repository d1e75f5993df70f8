package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.List;

/** A sum for each chunk, then for each tensor the sum of its chunks', all in F64. */
public final class SquareSumCuda extends UpdateCuda<SquareSum> {
    public SquareSumCuda() {
        super(SquareSum.class);
    }

    @Override
    boolean belongTogether(SquareSum first, SquareSum other) {
        return first.g().dtype() == other.g().dtype();
    }

    @Override
    boolean shareScalars(Frame<CudaTensor> first, Frame<CudaTensor> other) {
        return true;
    }

    @Override
    void write(List<SquareSum> ops, List<Frame<CudaTensor>> frames, CudaStream cuda) {
        Chunks chunks = new Chunks();
        for (Frame<CudaTensor> f : frames) {
            CudaTensor g = f.input(0);
            chunks.row(
                    g.count(),
                    g.address(),
                    g.count(),
                    chunks.count(),
                    Chunks.of(g.count()),
                    f.output(0).address());
        }
        long parts = cuda.workspace(chunks.count() * Double.BYTES);
        chunks.launch(cuda, "square_sum_parts_" + frames.getFirst().input(0).suffix(), parts);
        long rows = frames.size();
        cuda.launch(Chunks.SOURCE, "square_sum_join", Grid.over(rows * 32, 256, 1), chunks.table(cuda), rows, parts);
    }
}
