package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.ArrayList;
import java.util.List;

/** Casts with scales of earlier steps that follow each other, such as those of all weights before the first micro-batch, in one launch. */
public final class DelayedCastFusion implements CudaFusion {
    @Override
    public int length(List<CudaCall> calls, int at) {
        return CudaFusion.alike(calls, at, DelayedCastFusion::isLike);
    }

    private static boolean isLike(CudaCall first, CudaCall call) {
        return first.op() instanceof QuantizeFp8Delayed like
                && first.isForward(QuantizeFp8Delayed.class)
                && call.isForward(QuantizeFp8Delayed.class)
                && call.op() instanceof QuantizeFp8Delayed op
                && op.x().dtype() == like.x().dtype()
                && op.format() == like.format()
                && call.frame().input(0).count() > 0; // a block of a tile writes the scale
    }

    @Override
    public void write(List<CudaCall> calls, CudaStream cuda) {
        List<CudaCodes> matrices = new ArrayList<>();
        List<CudaCodes.Cast> casts = new ArrayList<>();
        for (CudaCall call : calls) {
            QuantizeFp8Delayed op = (QuantizeFp8Delayed) call.op();
            Frame<CudaTensor> frame = call.frame();
            matrices.add(QuantizeFp8DelayedCuda.matrix(op, frame.input(0), cuda));
            casts.add(QuantizeFp8DelayedCuda.target(op, frame, cuda));
        }
        CudaCodes.cast(matrices, casts, cuda);
    }
}
