package dev.octet.trainer.op.gather;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.state.CudaState;

/** Eight columns of a row to a thread. As in {@link GatherCuda}, a row outside of the table is NaN. */
final class GatherStateCuda implements CudaKernel<GatherState> {
    private static final GatherCuda ROWS = new GatherCuda();

    @Override
    public void forward(GatherState op, Frame<CudaTensor> frame, CudaStream cuda) {
        Gather gather = op.rows();
        CudaTensor y = frame.output(0);
        CudaTensor indices = frame.input(1);
        if (y.count() == 0) {
            return;
        }
        long[] words = CudaState.words(op.form(), gather.x(), GatherState.parts(frame::input), 0);
        cuda.launch(
                CudaState.SOURCE,
                "gather_kept",
                Grid.over(indices.count() * Math.ceilDiv(gather.inner(), 8L), 256, 1),
                (int) words[0],
                words[1],
                words[2],
                CudaState.quantiles(cuda),
                indices,
                indices.dtype() == DType.I64 ? 1 : 0,
                indices.count(),
                gather.size(),
                gather.inner(),
                y);
    }

    @Override
    public void backward(GatherState op, Frame<CudaTensor> frame, CudaStream cuda) {
        ROWS.backward(op.rows(), frame, cuda);
    }
}
