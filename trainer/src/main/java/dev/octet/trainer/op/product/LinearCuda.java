package dev.octet.trainer.op.product;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** One product each, the bias added to its sums before they are rounded. */
final class LinearCuda implements CudaKernel<Linear> {
    private final PaddingRule rule;

    LinearCuda() {
        this(PaddingRule.STANDARD);
    }

    LinearCuda(PaddingRule rule) {
        this.rule = rule;
    }

    @Override
    public void forward(Linear op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor x = frame.input(0);
        CudaTensor w = frame.input(1);
        CudaTensor y = frame.output(0);
        boolean epilogue = op.hasBias() && frame.input(2).dtype() == y.dtype() && op.in() > 0;
        if (op.hasBias() && !epilogue) {
            CudaRows.fill(y, frame.input(2), op.rows(), op.out(), 1, op.out(), 1, cuda);
        }
        CudaProduct product = product(op, x.address(), w.address(), Matrix.of(y.address(), y.dtype(), y.pitch()))
                .accumulating(op.hasBias() && !epilogue);
        new CudaProducts(cuda, rule)
                .roomy(y)
                .write(epilogue ? product.withBias(frame.input(2).address(), y.dtype()) : product);
    }

    private static CudaProduct product(Linear op, long x, long w, Matrix y) {
        return CudaProduct.of(
                false,
                op.transB(),
                op.rows(),
                op.out(),
                op.in(),
                Matrix.of(x, op.x().dtype(), op.in()),
                Matrix.of(w, op.w().dtype(), op.transB() ? op.in() : op.out()),
                y);
    }

    /** Those of a head whose vocabulary is no multiple of 8. */
    @Override
    public long rowPitch(Linear op, CudaStream cuda) {
        Matrix y = Matrix.of(0, op.y().dtype(), op.out());
        return op.hasBias() ? 0 : new CudaProducts(cuda, rule).pitch(product(op, 0, 0, y));
    }

    @Override
    public boolean takesLongGradient(Linear op) {
        return true;
    }

    @Override
    public void backward(Linear op, Frame<CudaTensor> frame, CudaStream cuda) {
        backwardProducts(op, frame, cuda);
        if (op.hasBias() && frame.wantsGradient(2)) {
            CudaRows.sum(frame.upstream(0), frame.gradient(2), op.rows(), op.out(), frame.accumulates(2), cuda);
        }
    }

    /** Backward without the bias's gradient. */
    void backwardProducts(Linear op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        CudaProducts products = new CudaProducts(cuda, rule).keeping(dy).roomy(dy);
        Matrix up = Matrix.of(dy.address(), dy.dtype(), dy.pitch());
        if (frame.wantsGradient(0)) {
            CudaTensor w = frame.input(1);
            CudaTensor dx = frame.gradient(0);
            products.write(CudaProduct.of(
                            false,
                            !op.transB(),
                            op.rows(),
                            op.in(),
                            op.out(),
                            up,
                            Matrix.of(w.address(), w.dtype(), op.transB() ? op.in() : op.out()),
                            Matrix.of(dx.address(), dx.dtype(), op.in()))
                    .accumulating(frame.accumulates(0)));
        }
        if (frame.wantsGradient(1)) {
            CudaTensor x = frame.input(0);
            CudaTensor dw = frame.gradient(1);
            boolean add = frame.accumulates(1);
            Matrix from = Matrix.of(x.address(), x.dtype(), op.in());
            products.write((op.transB()
                            ? CudaProduct.of(
                                    true,
                                    false,
                                    op.out(),
                                    op.in(),
                                    op.rows(),
                                    up,
                                    from,
                                    Matrix.of(dw.address(), dw.dtype(), op.in()))
                            : CudaProduct.of(
                                    true,
                                    false,
                                    op.in(),
                                    op.out(),
                                    op.rows(),
                                    from,
                                    up,
                                    Matrix.of(dw.address(), dw.dtype(), op.out())))
                    .accumulating(add));
        }
    }
}
