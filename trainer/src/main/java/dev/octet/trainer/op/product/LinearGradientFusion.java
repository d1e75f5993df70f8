package dev.octet.trainer.op.product;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.cast.Cast;
import java.util.List;

/**
 * A Linear's gradients with the cast of the bias's to F32 behind it: the sum of rows is rounded to the narrow type, as the Linear has it, and goes to the gradient in F32, where it may
 * wait for those of other layers.
 */
public final class LinearGradientFusion implements CudaFusion {
    private static final int BIAS = 2;

    @Override
    public int length(List<CudaCall> calls, int at) {
        return at + 1 < calls.size() && fits(calls.get(at), calls.get(at + 1)) ? 2 : 0;
    }

    private static boolean fits(CudaCall linear, CudaCall cast) {
        if (!linear.isBackward(Linear.class) || !cast.isBackward(Cast.class)) {
            return false;
        }
        Frame<CudaTensor> frame = linear.frame();
        return ((Linear) linear.op()).hasBias()
                && frame.hasUpstream(0)
                && frame.wantsGradient(BIAS)
                && !frame.accumulates(BIAS)
                && linear.gradientReaders().applyAsInt(BIAS) == 1
                && cast.frame().hasUpstream(0)
                && cast.frame().wantsGradient(0)
                && cast.frame().upstream(0).equals(frame.gradient(BIAS))
                && cast.frame().gradient(0).dtype() == DType.F32
                && isNarrow(frame.gradient(BIAS).dtype());
    }

    private static boolean isNarrow(DType type) {
        return type == DType.BF16 || type == DType.F16;
    }

    @Override
    public void write(List<CudaCall> calls, CudaStream cuda) {
        Linear op = (Linear) calls.getFirst().op();
        Frame<CudaTensor> linear = calls.getFirst().frame();
        Frame<CudaTensor> cast = calls.getLast().frame();
        new LinearCuda().backwardProducts(op, linear, cuda);
        CudaRows.sum(
                linear.upstream(0),
                cast.gradient(0),
                linear.gradient(BIAS).dtype(),
                op.rows(),
                op.out(),
                cast.accumulates(0),
                cuda);
    }

    @Override
    public void writeUnread(List<CudaCall> calls, CudaStream cuda) {
        Linear op = (Linear) calls.getFirst().op();
        Frame<CudaTensor> linear = calls.getFirst().frame();
        CudaRows.sum(linear.upstream(0), linear.gradient(BIAS), op.rows(), op.out(), false, cuda);
    }
}
