package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.List;

/** A sum for each chunk, then for each tensor the root of the mean of its chunks'. */
public final class UpdateRmsCuda extends UpdateCuda<UpdateRms> {
    public UpdateRmsCuda() {
        super(UpdateRms.class);
    }

    @Override
    boolean belongTogether(UpdateRms first, UpdateRms other) {
        return first.g().dtype() == other.g().dtype() && first.beta2() == other.beta2() && first.eps() == other.eps();
    }

    @Override
    boolean shareScalars(Frame<CudaTensor> first, Frame<CudaTensor> other) {
        return sameInputs(first, other, 2, 4);
    }

    @Override
    void write(List<UpdateRms> ops, List<Frame<CudaTensor>> frames, CudaStream cuda) {
        Chunks chunks = new Chunks();
        for (Frame<CudaTensor> f : frames) {
            long count = f.input(0).count();
            chunks.row(
                    count,
                    f.input(0).address(),
                    f.input(1).address(),
                    count,
                    chunks.count(),
                    Chunks.of(count),
                    f.output(0).address());
        }
        UpdateRms op = ops.getFirst();
        Frame<CudaTensor> scalars = frames.getFirst();
        long parts = cuda.workspace(chunks.count() * Double.BYTES);
        chunks.launch(
                cuda,
                "update_rms_parts_" + scalars.input(0).suffix(),
                scalars.input(2),
                scalars.input(3),
                op.beta2(),
                op.eps(),
                parts);
        long rows = frames.size();
        cuda.launch(Chunks.SOURCE, "update_rms_join", Grid.over(rows * 32, 256, 1), chunks.table(cuda), rows, parts);
    }
}
