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
        return CudaFusion.alike(calls, at, CastFusion::isLike);
    }

    private static boolean isLike(CudaCall first, CudaCall call) {
        return first.op() instanceof Cast like
                && first.isForward(Cast.class)
                && call.isForward(Cast.class)
                && call.op() instanceof Cast op
                && op.from().dtype() == like.from().dtype()
                && op.to() == like.to();
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
