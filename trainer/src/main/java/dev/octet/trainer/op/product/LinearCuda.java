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
        CudaProduct product = CudaProduct.of(
                        false,
                        op.transB(),
                        op.rows(),
                        op.out(),
                        op.in(),
                        Matrix.of(x.address(), x.dtype(), op.in()),
                        Matrix.of(w.address(), w.dtype(), op.transB() ? op.in() : op.out()),
                        Matrix.of(y.address(), y.dtype(), op.out()))
                .accumulating(op.hasBias() && !epilogue);
        new CudaProducts(cuda, rule)
                .write(epilogue ? product.withBias(frame.input(2).address(), y.dtype()) : product);
    }

    @Override
    public void backward(Linear op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        CudaProducts products = new CudaProducts(cuda, rule).keeping(dy);
        if (frame.wantsGradient(0)) {
            products.write(
                    false,
                    !op.transB(),
                    op.rows(),
                    op.in(),
                    op.out(),
                    dy,
                    frame.input(1),
                    frame.gradient(0),
                    frame.accumulates(0));
        }
        if (frame.wantsGradient(1)) {
            CudaTensor x = frame.input(0);
            CudaTensor dw = frame.gradient(1);
            boolean add = frame.accumulates(1);
            if (op.transB()) {
                products.write(true, false, op.out(), op.in(), op.rows(), dy, x, dw, add);
            } else {
                products.write(true, false, op.in(), op.out(), op.rows(), x, dy, dw, add);
            }
        }
        if (op.hasBias() && frame.wantsGradient(2)) {
            CudaRows.sum(dy, frame.gradient(2), op.rows(), op.out(), frame.accumulates(2), cuda);
        }
    }
}
