package dev.octet.trainer.op.unary;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.List;

/** Eight elements a thread in F32; wide integers, F64, truth values and results of another type one by one in F64. */
public final class UnaryCuda<O extends UnaryOp> implements CudaKernel<O> {
    private static final CudaSource SOURCE = CudaSource.of(UnaryCuda.class, "unary.cu");

    /** Operators by the number that kernels know them by. */
    private static final List<String> FUNCTIONS = List.of(
            "Abs",
            "Ceil",
            "Clip",
            "Cos",
            "Erf",
            "Exp",
            "Floor",
            "HardSigmoid",
            "HardSwish",
            "IsInf",
            "IsNaN",
            "LeakyRelu",
            "Log",
            "Neg",
            "Not",
            "Reciprocal",
            "Relu",
            "Round",
            "Sigmoid",
            "Sign",
            "Sin",
            "Softplus",
            "Sqrt",
            "Swish",
            "Tanh");

    private record Attributes(double a, double b) {
        static Attributes of(UnaryOp op) {
            return switch (op) {
                case Clip c -> new Attributes(c.lowest(), c.highest());
                case HardSigmoid h -> new Attributes(h.alpha(), h.beta());
                case LeakyRelu l -> new Attributes(l.alpha(), 0);
                case Swish s -> new Attributes(s.alpha(), 0);
                default -> new Attributes(0, 0);
            };
        }
    }

    private static int function(UnaryOp op) {
        int number = FUNCTIONS.indexOf(op.type());
        if (number < 0) {
            throw new IllegalStateException(op.type() + " is not in unary.cu");
        }
        return number;
    }

    private static boolean isNarrowFloat(DType type) {
        return type == DType.F32 || type == DType.BF16 || type == DType.F16;
    }

    @Override
    public void forward(O op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor x = frame.input(0);
        CudaTensor y = frame.output(0);
        Attributes attributes = Attributes.of(op);
        if (isNarrowFloat(x.dtype()) && x.dtype() == y.dtype()) {
            cuda.launch(
                    SOURCE,
                    "unary_forward_" + x.suffix(),
                    Grid.over(x.count(), 256, 8),
                    function(op),
                    x,
                    y,
                    x.count(),
                    (float) attributes.a(),
                    (float) attributes.b());
            return;
        }
        cuda.launch(
                SOURCE,
                "unary_forward_any",
                Grid.over(x.count(), 256, 1),
                function(op),
                CudaSource.code(x.dtype()),
                x,
                CudaSource.code(y.dtype()),
                y,
                x.count(),
                attributes.a(),
                attributes.b());
    }

    @Override
    public void backward(O op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        CudaTensor dx = frame.gradient(0);
        Attributes attributes = Attributes.of(op);
        long kept = switch (op.kept()) {
            case INPUT -> frame.input(0).address();
            case OUTPUT -> frame.output(0).address();
            case NOTHING -> 0;
        };
        if (isNarrowFloat(dx.dtype())) {
            cuda.launch(
                    SOURCE,
                    "unary_backward_" + dx.suffix(),
                    Grid.over(dx.count(), 256, 8),
                    function(op),
                    dy,
                    kept,
                    dx,
                    dx.count(),
                    (float) attributes.a(),
                    (float) attributes.b());
            return;
        }
        cuda.launch(
                SOURCE,
                "unary_backward_any",
                Grid.over(dx.count(), 256, 1),
                function(op),
                CudaSource.code(dx.dtype()),
                dy,
                kept,
                dx,
                dx.count(),
                (float) attributes.a(),
                (float) attributes.b());
    }
}
