package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** The sums in F32 for as long as the step runs, then amax, scale and codes. */
final class AccumulateCodesCuda implements CudaKernel.Forward<AccumulateCodes> {
    @Override
    public void forward(AccumulateCodes op, Frame<CudaTensor> frame, CudaStream cuda) {
        if (op.x().count() == 0) {
            return;
        }
        CudaTensor sums = QuantizeStateCuda.decoded(op.form(), op.x(), frame::input, cuda);
        CudaTensor x = frame.input(2);
        cuda.launch(
                CudaCodes.SOURCE,
                "add_rounded",
                Grid.over(sums.count(), 256, 1),
                sums,
                x,
                sums.count(),
                CudaSource.code(op.rounded()));
        CudaCodes matrix = CudaCodes.whole(sums, op.format(), cuda);
        long amax = cuda.workspace(Float.BYTES);
        long quantScale = cuda.workspace(Float.BYTES);
        cuda.zero(amax, Float.BYTES);
        matrix.amax(amax, true);
        cuda.launch(
                CudaCodes.SOURCE,
                "gradient_scale",
                Grid.of(1, 32),
                amax,
                frame.input(1),
                op.format().maxValue(),
                op.form().rule().quirks() ? 1 : 0,
                quantScale);
        matrix.cast(frame.output(0).address(), 0, quantScale, frame.output(1).address(), 0);
    }
}
