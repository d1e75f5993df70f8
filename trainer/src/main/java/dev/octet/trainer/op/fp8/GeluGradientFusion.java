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
 * The gradient of a Gelu that a Linear in FP8 takes: made, quantised and transposed in one pass. It is written, too: the bias's gradient is the sum of
 * its rows as they were before.
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

    private static boolean isDelayed(Fp8Linear op) {
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
        List<Object> operands = List.of(gelu.input(0), gelu.upstream(0), gelu.gradient(0), op.tanh() ? 1 : 0);
        CudaCall linear = calls.getLast();
        Fp8LinearCuda.backward((Fp8Linear) linear.op(), linear.frame(), "gelu_gradient", operands, cuda);
    }
}
