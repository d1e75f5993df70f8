package dev.octet.trainer.op.state;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.state.CudaState;

/** Eight elements to a thread. */
final class DecodeStateCuda implements CudaKernel<DecodeState> {
    @Override
    public void forward(DecodeState op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor y = frame.output(0);
        if (y.count() > 0) {
            long[] words = CudaState.words(op.form(), op.tensor(), frame::input, 0);
            cuda.launch(
                    CudaState.SOURCE,
                    "decode_kept",
                    Grid.over(y.count(), 256, 8),
                    (int) words[0],
                    words[1],
                    words[2],
                    CudaState.quantiles(cuda),
                    y.count(),
                    CudaSource.code(y.dtype()),
                    y);
        }
    }

    @Override
    public void backward(DecodeState op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        CudaTensor dx = frame.gradient(0);
        if (dx.count() > 0) {
            cuda.launch(
                    CudaState.SOURCE,
                    "kept_gradient",
                    Grid.over(dx.count(), 256, 8),
                    CudaSource.code(dy.dtype()),
                    dy,
                    CudaSource.code(dx.dtype()),
                    dx,
                    dx.count(),
                    frame.accumulates(0) ? 1 : 0);
        }
    }
}
