package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaOnHost;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.List;
import java.util.Optional;

/** Two sums for each chunk, then for each tensor its multiplier. */
public final class TrustRatioCuda extends UpdateCuda<TrustRatio> {
    private static final CudaKernel<TrustRatio> ON_HOST = new CudaOnHost<>(new TrustRatioCpu(), _ -> 6);

    public TrustRatioCuda() {
        super(TrustRatio.class);
    }

    /** Weight decay may differ: it stands in each tensor's row. */
    @Override
    boolean belongTogether(TrustRatio first, TrustRatio other) {
        return first.p().dtype() == other.p().dtype()
                && first.beta1() == other.beta1()
                && first.beta2() == other.beta2()
                && first.eps() == other.eps()
                && first.rule().equals(other.rule());
    }

    /** Sums and extremes of whole tensors travel between ranks: each computes its part on the host. */
    @Override
    Optional<CudaKernel<TrustRatio>> onHost(TrustRatio op) {
        return op.of().isShared() ? Optional.of(ON_HOST) : Optional.empty();
    }

    @Override
    boolean shareScalars(Frame<CudaTensor> first, Frame<CudaTensor> other) {
        return sameInputs(first, other, 4, 6);
    }

    @Override
    void write(List<TrustRatio> ops, List<Frame<CudaTensor>> frames, CudaStream cuda) {
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
                    count,
                    chunks.count(),
                    Chunks.of(count),
                    Double.doubleToRawLongBits(ops.get(i).weightDecay()),
                    f.output(0).address());
        }
        TrustRatio op = ops.getFirst();
        Frame<CudaTensor> scalars = frames.getFirst();
        int how = op.rule().correctsMoments() ? 1 : op.rule().correctsStep() ? 3 : 0;
        long parts = cuda.workspace(Math.max(1, chunks.count()) * 2 * Double.BYTES);
        chunks.launch(
                cuda,
                "trust_parts_" + scalars.input(0).suffix(),
                scalars.input(4),
                scalars.input(5),
                op.beta1(),
                op.beta2(),
                op.eps(),
                how,
                parts);
        long rows = frames.size();
        cuda.launch(
                Chunks.SOURCE,
                "trust_join",
                Grid.over(rows * 32, 256, 1),
                chunks.table(cuda),
                rows,
                parts,
                scalars.input(4),
                op.beta1(),
                op.beta2(),
                op.rule().minCoeff(),
                op.rule().maxCoeff(),
                op.rule().alwaysAdapts() ? 1 : 0,
                how);
    }
}
