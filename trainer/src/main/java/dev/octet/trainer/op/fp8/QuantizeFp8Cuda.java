package dev.octet.trainer.op.fp8;

import dev.octet.quant.scale.TransformerEngineScale;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** Amaxes, scales, then codes, with their transpose where a product wants it. */
public final class QuantizeFp8Cuda implements CudaKernel.Forward<QuantizeFp8> {
    @Override
    public void forward(QuantizeFp8 op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor codes = frame.output(0);
        CudaCodes matrix = new CudaCodes(frame.input(0), op.form(), cuda);
        long transposed = cuda.wanted(codes, CudaCodes.TRANSPOSED);
        if (transposed != 0
                && !op.records()
                && matrix.isOfSquares()
                && op.rule() instanceof TransformerEngineScale rule) {
            matrix.castSquares(rule, codes.address(), frame.output(1).address(), transposed);
            return;
        }
        long quantScales = matrix.quantScales(
                op.rule(),
                frame.output(1).address(),
                op.records() ? frame.output(2).address() : 0);
        matrix.encode(codes.address(), transposed, quantScales);
    }
}
