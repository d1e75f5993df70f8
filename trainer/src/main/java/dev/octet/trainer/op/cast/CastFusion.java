package dev.octet.trainer.op.cast;

import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.op.update.Chunks;
import java.util.List;

/** Casts between the same types that follow each other, such as those of all weights before the first micro-batch, in one launch. */
public final class CastFusion implements CudaFusion {
    @Override
    public int length(List<CudaCall> calls, int at) {
        int length = 0;
        while (at + length < calls.size() && isLike(calls, at, at + length)) {
            length++;
        }
        return length > 1 ? length : 0;
    }

    /** Whether a step casts as the first one does, and none of the steps before makes what it casts. */
    private static boolean isLike(List<CudaCall> calls, int first, int at) {
        CudaCall call = calls.get(at);
        if (!call.isForward(Cast.class) || !calls.get(first).isForward(Cast.class)) {
            return false;
        }
        Cast op = (Cast) call.op();
        Cast like = (Cast) calls.get(first).op();
        CudaTensor x = call.frame().input(0);
        return op.from().dtype() == like.from().dtype()
                && op.to() == like.to()
                && calls.subList(first, at).stream()
                        .noneMatch(c -> c.frame().output(0).equals(x));
    }

    @Override
    public void write(List<CudaCall> calls, CudaStream cuda) {
        Chunks chunks = new Chunks();
        for (CudaCall call : calls) {
            CudaTensor x = call.frame().input(0);
            chunks.row(x.count(), x.address(), call.frame().output(0).address(), x.count());
        }
        chunks.launch(cuda, CastCuda.source((Cast) calls.getFirst().op()), "casts_forward");
    }
}
