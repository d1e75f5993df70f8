package dev.octet.trainer.op.experts;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.MatrixProducts.Call;
import dev.octet.trainer.op.product.Rows;

/** One product each for the rows of an expert, with all threads; none for an expert without rows. */
final class GroupedLinearCpu implements CpuKernel<GroupedLinear> {
    @Override
    public void forward(GroupedLinear op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor x = frame.input(0);
        CpuTensor y = frame.output(0);
        for (int e = 0; e < op.experts(); e++) {
            ExpertGroup group = ExpertGroup.of(frame.input(1), e);
            if (group.count() == 0) {
                continue;
            }
            CpuTensor to = group.rowsOf(y, op.out());
            if (op.hasBias()) {
                CpuTensor bias = frame.input(GroupedLinear.WEIGHTS + op.experts() + e);
                Rows.fill(to, bias, group.count(), op.out(), cpu.parallel());
            }
            CpuTensor w = frame.input(GroupedLinear.WEIGHTS + e);
            Call call =
                    Call.of(false, op.transB(), group.count(), op.out(), op.in(), x.dtype(), y.dtype(), op.hasBias());
            cpu.gemm().shared(call, group.rowsOf(x, op.in()).bytes(), w.bytes(), to.bytes(), cpu.parallel());
        }
    }

    @Override
    public void backward(GroupedLinear op, Frame<CpuTensor> frame, CpuContext cpu) {
        for (int e = 0; e < op.experts(); e++) {
            int w = GroupedLinear.WEIGHTS + e;
            ExpertGroup group = ExpertGroup.of(frame.input(1), e);
            CpuTensor dy = group.rowsOf(frame.upstream(0), op.out());
            if (frame.wantsGradient(0) && group.count() > 0) {
                CpuTensor dx = group.rowsOf(frame.gradient(0), op.in());
                Call call =
                        Call.of(false, !op.transB(), group.count(), op.in(), op.out(), dy.dtype(), dx.dtype(), false);
                cpu.gemm().shared(call, dy.bytes(), frame.input(w).bytes(), dx.bytes(), cpu.parallel());
            }
            if (frame.wantsGradient(w)) {
                weightGradient(op, group, frame, e, cpu);
            }
            if (op.hasBias() && frame.wantsGradient(w + op.experts())) {
                CpuTensor db = frame.gradient(w + op.experts());
                Rows.sum(dy, db, group.count(), op.out(), frame.accumulates(w + op.experts()), cpu.parallel());
            }
        }
    }

    private static void weightGradient(
            GroupedLinear op, ExpertGroup group, Frame<CpuTensor> frame, int e, CpuContext cpu) {
        int w = GroupedLinear.WEIGHTS + e;
        CpuTensor dw = frame.gradient(w);
        boolean add = frame.accumulates(w);
        if (group.count() == 0) {
            if (!add) {
                dw.bytes().fill((byte) 0);
            }
            return;
        }
        CpuTensor x = group.rowsOf(frame.input(0), op.in());
        CpuTensor dy = group.rowsOf(frame.upstream(0), op.out());
        if (op.transB()) {
            Call call = Call.of(true, false, op.out(), op.in(), group.count(), dy.dtype(), dw.dtype(), add);
            cpu.gemm().shared(call, dy.bytes(), x.bytes(), dw.bytes(), cpu.parallel());
        } else {
            Call call = Call.of(true, false, op.in(), op.out(), group.count(), dy.dtype(), dw.dtype(), add);
            cpu.gemm().shared(call, x.bytes(), dy.bytes(), dw.bytes(), cpu.parallel());
        }
    }
}
