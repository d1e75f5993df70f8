package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaOnHost;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.List;
import java.util.Optional;

/** A sum for each chunk, then for each tensor the root of the mean of its chunks'. */
public final class UpdateRmsCuda extends UpdateCuda<UpdateRms> {
    private static final CudaKernel<UpdateRms> ON_HOST = new CudaOnHost<>(new UpdateRmsCpu(), _ -> 4);

    public UpdateRmsCuda() {
        super(UpdateRms.class);
    }

    @Override
    boolean belongTogether(UpdateRms first, UpdateRms other) {
        return first.g().dtype() == other.g().dtype() && first.beta2() == other.beta2() && first.eps() == other.eps();
    }

    /** Sums and extremes of whole tensors travel between ranks: each computes its part on the host. */
    @Override
    Optional<CudaKernel<UpdateRms>> onHost(UpdateRms op) {
        return op.of().isShared() ? Optional.of(ON_HOST) : Optional.empty();
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
