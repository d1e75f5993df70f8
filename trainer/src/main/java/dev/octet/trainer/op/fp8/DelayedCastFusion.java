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
        int length = 0;
        while (at + length < calls.size() && isLike(calls, at, at + length)) {
            length++;
        }
        return length > 1 ? length : 0;
    }

    /** Whether a step casts between the types of the first one, and none of the steps before makes what it reads. */
    private static boolean isLike(List<CudaCall> calls, int first, int at) {
        CudaCall call = calls.get(at);
        if (!call.isForward(QuantizeFp8Delayed.class) || !calls.get(first).isForward(QuantizeFp8Delayed.class)) {
            return false;
        }
        QuantizeFp8Delayed op = (QuantizeFp8Delayed) call.op();
        QuantizeFp8Delayed like = (QuantizeFp8Delayed) calls.get(first).op();
        CudaTensor x = call.frame().input(0);
        return op.x().dtype() == like.x().dtype()
                && op.format() == like.format()
                && x.count() > 0 // a block of a tile writes the scale
                && calls.subList(first, at).stream()
                        .noneMatch(c -> c.frame().output(0).equals(x));
    }

    @Override
    public void write(List<CudaCall> calls, CudaStream cuda) {
        List<CudaCodes> matrices = new ArrayList<>();
        List<CudaCodes.Cast> casts = new ArrayList<>();
        for (CudaCall call : calls) {
            QuantizeFp8Delayed op = (QuantizeFp8Delayed) call.op();
            Frame<CudaTensor> frame = call.frame();
            CudaTensor codes = frame.output(0);
            matrices.add(QuantizeFp8DelayedCuda.matrix(op, frame.input(0), cuda));
            casts.add(new CudaCodes.Cast(
                    codes.address(),
                    cuda.wanted(codes, CudaCodes.TRANSPOSED),
                    frame.input(1).address(),
                    frame.output(1).address(),
                    QuantizeFp8DelayedCuda.history(op, frame, cuda)));
        }
        CudaCodes.cast(matrices, casts, cuda);
    }
}
