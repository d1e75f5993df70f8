package dev.octet.trainer.op.cast;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.BFloat16;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** y = rounded x; the rounding's derivative is taken to be 1. */
final class CastReference implements ReferenceKernel<Cast> {
    @Override
    public void forward(Cast op, Frame<double[]> frame) {
        double[] x = frame.input(0);
        double[] y = frame.output(0);
        for (int i = 0; i < x.length; i++) {
            y[i] = rounded(x[i], op.from().dtype(), op.to());
        }
    }

    /** Widening and F64 to F32 leave a double as it is: the reference computes in F64 what others do in F32. */
    private static double rounded(double x, DType from, DType to) {
        return switch (to) {
            case F16 -> Float.float16ToFloat(Float.floatToFloat16((float) x));
            case BF16 -> BFloat16.toFloat(BFloat16.fromFloat((float) x));
            case F32, F64 -> x;
            case BOOL -> x == 0 ? 0 : 1;
            case I64, I32, I8, U8 -> from.isFloat() ? (long) x : x;
            default -> throw new IllegalStateException(to + " is not a type of programs");
        };
    }

    @Override
    public void backward(Cast op, Frame<double[]> frame) {
        double[] dy = frame.upstream(0);
        System.arraycopy(dy, 0, frame.gradient(0), 0, dy.length);
    }
}
