package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** Amaxes, one thread for the scale, then codes, with their transpose where a product wants it. */
public final class QuantizeWindowedCuda implements CudaKernel.Forward<QuantizeWindowed> {
    @Override
    public void forward(QuantizeWindowed op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor codes = frame.output(0);
        CudaCodes matrix = CudaCodes.whole(frame.input(0), op.format(), cuda);
        long newScale = op.records() ? frame.output(2).address() : cuda.workspace(Float.BYTES);
        long newWindow = op.records()
                ? frame.output(3).address()
                : cuda.workspace((long) op.rule().length() * Float.BYTES);
        new CudaWindow(op.slot(), frame.input(1).address(), frame.input(2).address(), newScale, newWindow)
                .cast(matrix, cuda);
        matrix.cast(
                codes.address(),
                cuda.wanted(codes, CudaCodes.TRANSPOSED),
                newScale,
                frame.output(1).address(),
                0);
    }
}
