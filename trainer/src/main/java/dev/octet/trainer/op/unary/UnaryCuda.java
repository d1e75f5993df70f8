package dev.octet.trainer.op.unary;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** Eight elements a thread in F32; wide integers, F64, truth values and results of another type one by one in F64. */
public final class UnaryCuda implements CudaKernel<Unary> {
    /** The kernels, with all rows of {@link UnaryFunction} in them. */
    public static final CudaSource SOURCE =
            CudaSource.of(UnaryCuda.class, "unary.cu").including(functions());

    /** {@code value} and {@code gradient} of every function, by the number of its row. */
    private static String functions() {
        StringBuilder values = new StringBuilder();
        StringBuilder gradients = new StringBuilder();
        for (UnaryFunction f : UnaryFunction.values()) {
            values.append("    case %d: return %s; // %s\n"
                    .formatted(f.cudaCase(), f.value().cuda(), f));
            UnaryGradient gradient = f.gradient();
            if (gradient.exists()) {
                gradients.append("    case %d: { float %s = saved; (void)%2$s; return %s; } // %s\n"
                        .formatted(f.cudaCase(), gradient.cudaName(), gradient.cuda(), f));
            }
        }
        return """
            template <typename R> DEVICE R value(int function, R x, R a, R b) {
                switch (function) {
            %s    default: return x;
                }
            }
            DEVICE float gradient(int function, float g, float saved, float a, float b) {
                switch (function) {
            %s    default: return 0;
                }
            }
            """.formatted(values, gradients);
    }

    private static boolean isNarrowFloat(DType type) {
        return type == DType.F32 || type == DType.BF16 || type == DType.F16;
    }

    @Override
    public void forward(Unary op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor x = frame.input(0);
        CudaTensor y = frame.output(0);
        int function = op.function().cudaCase();
        if (isNarrowFloat(x.dtype()) && x.dtype() == y.dtype()) {
            Grid grid = Grid.over(x.count(), 256, 8);
            float a = (float) op.a();
            float b = (float) op.b();
            cuda.launch(SOURCE, "unary_forward_" + x.suffix(), grid, function, x, y, x.count(), a, b);
            return;
        }
        cuda.launch(
                SOURCE,
                "unary_forward_any",
                Grid.over(x.count(), 256, 1),
                function,
                CudaSource.code(x.dtype()),
                x,
                CudaSource.code(y.dtype()),
                y,
                x.count(),
                op.a(),
                op.b());
    }

    @Override
    public void backward(Unary op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        CudaTensor dx = frame.gradient(0);
        int function = op.function().cudaCase();
        float a = (float) op.a();
        float b = (float) op.b();
        long n = dx.count();
        long saved = switch (op.function().gradient().saved()) {
            case INPUT -> frame.input(0).address();
            case OUTPUT -> frame.output(0).address();
            case NOTHING -> 0;
        };
        if (isNarrowFloat(dx.dtype())) {
            Grid grid = Grid.over(n, 256, 8);
            cuda.launch(SOURCE, "unary_backward_" + dx.suffix(), grid, function, dy, saved, dx, n, a, b);
            return;
        }
        int type = CudaSource.code(dx.dtype());
        Grid grid = Grid.over(n, 256, 1);
        cuda.launch(SOURCE, "unary_backward_any", grid, function, type, dy, saved, dx, n, a, b);
    }
}
