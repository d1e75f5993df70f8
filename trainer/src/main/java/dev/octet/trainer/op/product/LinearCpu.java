package dev.octet.trainer.op.product;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.MatrixProducts.Call;

/** One product each; forward adds the product to rows filled with the bias, so a narrow result is rounded once. */
final class LinearCpu implements CpuKernel<Linear> {
    @Override
    public void forward(Linear op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor x = frame.input(0);
        CpuTensor w = frame.input(1);
        CpuTensor y = frame.output(0);
        if (op.hasBias()) {
            Rows.fill(y, frame.input(2), op.rows(), op.out(), cpu.parallel());
        }
        Call call = Call.of(false, op.transB(), op.rows(), op.out(), op.in(), x.dtype(), y.dtype(), op.hasBias());
        cpu.gemm().shared(call, x.bytes(), w.bytes(), y.bytes(), cpu.parallel());
    }

    @Override
    public void backward(Linear op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dy = frame.upstream(0);
        if (frame.wantsGradient(0)) {
            CpuTensor w = frame.input(1);
            CpuTensor dx = frame.gradient(0);
            Call call = Call.of(
                    false, !op.transB(), op.rows(), op.in(), op.out(), dy.dtype(), dx.dtype(), frame.accumulates(0));
            cpu.gemm().shared(call, dy.bytes(), w.bytes(), dx.bytes(), cpu.parallel());
        }
        if (frame.wantsGradient(1)) {
            weightGradient(op, frame.input(0), dy, frame.gradient(1), frame.accumulates(1), cpu);
        }
        if (op.hasBias() && frame.wantsGradient(2)) {
            Rows.sum(dy, frame.gradient(2), op.rows(), op.out(), frame.accumulates(2), cpu.parallel());
        }
    }

    private static void weightGradient(
            Linear op, CpuTensor x, CpuTensor dy, CpuTensor dw, boolean accumulate, CpuContext cpu) {
        if (op.transB()) {
            Call call = Call.of(true, false, op.out(), op.in(), op.rows(), dy.dtype(), dw.dtype(), accumulate);
            cpu.gemm().shared(call, dy.bytes(), x.bytes(), dw.bytes(), cpu.parallel());
        } else {
            Call call = Call.of(true, false, op.in(), op.out(), op.rows(), dy.dtype(), dw.dtype(), accumulate);
            cpu.gemm().shared(call, x.bytes(), dy.bytes(), dw.bytes(), cpu.parallel());
        }
    }
}
