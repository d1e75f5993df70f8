package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.gelu.Gelu;
import java.util.List;

/**
 * The gradient of a Gelu that a Linear in FP8 takes: made, quantised, transposed and its rows summed for the bias in one pass. It is written only where
 * something else reads it.
 */
public final class GeluGradientFusion implements CudaFusion {
    @Override
    public int length(List<CudaCall> calls, int at) {
        if (at + 1 >= calls.size()) {
            return 0;
        }
        CudaCall gelu = calls.get(at);
        CudaCall linear = calls.get(at + 1);
        return gelu.isBackward(Gelu.class)
                        && linear.isBackward(Fp8Linear.class)
                        && linear.frame().upstream(0).equals(gelu.frame().gradient(0))
                        && isDelayed((Fp8Linear) linear.op())
                        && isNarrowFloat(gelu.frame().gradient(0).dtype())
                        && gelu.frame().gradient(0).count() > 0
                ? 2
                : 0;
    }

    /** Whether the gradient is cast with a scale of earlier steps. */
    static boolean isDelayed(Fp8Linear op) {
        CodedMatrix first =
                op.dgrad().left() != null ? op.dgrad().left() : op.wgrad().left();
        return first != null && first.isDelayed();
    }

    private static boolean isNarrowFloat(DType type) {
        return type == DType.F32 || type == DType.BF16 || type == DType.F16;
    }

    @Override
    public void write(List<CudaCall> calls, CudaStream cuda) {
        Frame<CudaTensor> gelu = calls.getFirst().frame();
        Gelu op = (Gelu) calls.getFirst().op();
        CudaCall linear = calls.getLast();
        Object written = isRead(linear, cuda) ? gelu.gradient(0) : 0L;
        List<Object> operands = List.of(gelu.input(0), gelu.upstream(0), written, op.tanh() ? 1 : 0);
        Fp8LinearCuda.backward((Fp8Linear) linear.op(), linear.frame(), "gelu_gradient", operands, cuda);
    }

    @Override
    public void writeUnread(List<CudaCall> calls, CudaStream cuda) {
        if (!isRead(calls.getLast(), cuda)) {
            CudaCall gelu = calls.getFirst();
            Gelu.ENTRY.cuda().backward((Gelu) gelu.op(), gelu.frame(), cuda);
        }
    }

    private static boolean isRead(CudaCall linear, CudaStream cuda) {
        return linear.upstreamReaders().applyAsInt(0) > 1
                || Fp8LinearCuda.readsNumbers((Fp8Linear) linear.op(), linear.frame(), cuda);
    }
}
