package dev.octet.trainer.op.product;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** One product each. {@code alpha} is 1 in nearly every model; where it is not, a scaled copy of one side is made. */
final class GemmCuda implements CudaKernel<Gemm> {
    private final PaddingRule rule;

    GemmCuda() {
        this(PaddingRule.STANDARD);
    }

    GemmCuda(PaddingRule rule) {
        this.rule = rule;
    }

    @Override
    public void forward(Gemm op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor y = frame.output(0);
        if (op.c() != null) {
            CudaRows.fill(y, frame.input(2), op.m(), op.n(), op.rowsOfC(), op.columnsOfC(), op.beta(), cuda);
        }
        CudaTensor a = scaled(frame.input(0), op.alpha(), cuda);
        new CudaProducts(cuda, rule)
                .write(op.transA(), op.transB(), op.m(), op.n(), op.k(), a, frame.input(1), y, op.c() != null);
    }

    @Override
    public void backward(Gemm op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        boolean wanted = frame.wantsGradient(0) || frame.wantsGradient(1);
        CudaTensor up = wanted ? scaled(dy, op.alpha(), cuda) : dy;
        CudaProducts products = new CudaProducts(cuda, rule).keeping(up);
        if (frame.wantsGradient(0)) {
            leftGradient(op, frame, up, products);
        }
        if (frame.wantsGradient(1)) {
            rightGradient(op, frame, up, products);
        }
        if (op.c() != null && frame.wantsGradient(2)) {
            sum(op, dy, frame.gradient(2), frame.accumulates(2), cuda);
        }
    }

    private static void leftGradient(Gemm op, Frame<CudaTensor> frame, CudaTensor up, CudaProducts products) {
        CudaTensor b = frame.input(1);
        CudaTensor da = frame.gradient(0);
        boolean add = frame.accumulates(0);
        if (op.transA()) { // a lies as [k, m]: its gradient is op(b)·dyᵀ
            products.write(op.transB(), true, op.k(), op.m(), op.n(), b, up, da, add);
        } else {
            products.write(false, !op.transB(), op.m(), op.k(), op.n(), up, b, da, add);
        }
    }

    private static void rightGradient(Gemm op, Frame<CudaTensor> frame, CudaTensor up, CudaProducts products) {
        CudaTensor a = frame.input(0);
        CudaTensor db = frame.gradient(1);
        boolean add = frame.accumulates(1);
        if (op.transB()) { // b lies as [n, k]: its gradient is dyᵀ·op(a)
            products.write(true, op.transA(), op.n(), op.k(), op.m(), up, a, db, add);
        } else {
            products.write(!op.transA(), false, op.k(), op.n(), op.m(), a, up, db, add);
        }
    }

    private static CudaTensor scaled(CudaTensor x, float factor, CudaStream cuda) {
        if (factor == 1) {
            return x;
        }
        CudaTensor copy = new CudaTensor(x.type(), cuda.workspace(x.byteSize()));
        cuda.launch(
                CudaRows.SOURCE,
                "scaled_copy",
                Grid.over(x.count(), 256, 1),
                CudaSource.code(x.dtype()),
                x,
                copy,
                x.count(),
                factor);
        return copy;
    }

    /** dc = beta · the sum of dy over what c was broadcast along. */
    private static void sum(Gemm op, CudaTensor dy, CudaTensor dc, boolean accumulate, CudaStream cuda) {
        if (op.rowsOfC() == 1 && op.columnsOfC() == op.n() && op.beta() == 1) {
            CudaRows.sum(dy, dc, op.m(), op.n(), accumulate, cuda);
            return;
        }
        long elements = (long) op.rowsOfC() * op.columnsOfC();
        cuda.kernel(CudaRows.SOURCE, "repeated_sum", Grid.over(elements * 32, 256, 1))
                .typed("type", "x", dy)
                .value("rows", (long) op.m())
                .value("n", (long) op.n())
                .value("rows_of_d", (long) op.rowsOfC())
                .value("columns_of_d", (long) op.columnsOfC())
                .typed("type_d", "d", dc)
                .flag("accumulate", accumulate)
                .value("factor", op.beta())
                .launch();
    }
}
