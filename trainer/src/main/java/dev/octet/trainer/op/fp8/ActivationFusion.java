package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.binary.Binary;
import dev.octet.trainer.op.binary.BinaryFunction;
import dev.octet.trainer.op.gelu.Gelu;
import java.util.List;

/**
 * An activation whose result is quantised: Gelu, or the product that ends SwiGLU. For BF16 that is two (four) bytes read and two written for each
 * element instead of six (eight) and four; the result itself is written only where something else reads it.
 */
public final class ActivationFusion implements CudaFusion {
    @Override
    public int length(List<CudaCall> calls, int at) {
        if (at + 1 >= calls.size()) {
            return 0;
        }
        CudaCall activation = calls.get(at);
        CudaCall cast = calls.get(at + 1);
        return isActivation(activation)
                        && cast.isForward(QuantizeFp8Delayed.class)
                        && cast.frame().input(0).equals(activation.frame().output(0))
                ? 2
                : 0;
    }

    private static boolean isActivation(CudaCall call) {
        if (call.isForward(Gelu.class)) {
            return isNarrowFloat(call.frame().output(0).dtype());
        }
        if (!call.isForward(Binary.class) || ((Binary) call.op()).function() != BinaryFunction.Mul) {
            return false;
        }
        CudaTensor y = call.frame().output(0);
        return isNarrowFloat(y.dtype())
                && call.frame().input(0).type().equals(y.type())
                && call.frame().input(1).type().equals(y.type());
    }

    private static boolean isNarrowFloat(DType type) {
        return type == DType.F32 || type == DType.BF16 || type == DType.F16;
    }

    private static boolean isRead(CudaCall activation) {
        return activation.readers().applyAsInt(0) > 1;
    }

    @Override
    public void writeUnread(List<CudaCall> calls, CudaStream cuda) {
        CudaCall activation = calls.getFirst();
        if (isRead(activation)) {
            return;
        }
        if (activation.op() instanceof Gelu gelu) {
            Gelu.ENTRY.cuda().forward(gelu, activation.frame(), cuda);
        } else {
            Binary.ENTRY.cuda().forward((Binary) activation.op(), activation.frame(), cuda);
        }
    }

    @Override
    public void write(List<CudaCall> calls, CudaStream cuda) {
        CudaCall activation = calls.getFirst();
        Frame<CudaTensor> frame = activation.frame();
        CudaTensor y = frame.output(0);
        long written = isRead(activation) ? y.address() : 0;
        QuantizeFp8Delayed op = (QuantizeFp8Delayed) calls.getLast().op();
        Frame<CudaTensor> cast = calls.getLast().frame();
        List<Object> operands = activation.op() instanceof Gelu gelu
                ? List.of(frame.input(0), written, gelu.tanh() ? 1 : 0)
                : List.of(frame.input(0), frame.input(1), written);
        String operator = activation.op() instanceof Gelu ? "gelu" : "product";
        QuantizeFp8DelayedCuda.matrix(op, y, cuda)
                .cast(operator, operands, QuantizeFp8DelayedCuda.target(op, cast, cuda));
    }
}
