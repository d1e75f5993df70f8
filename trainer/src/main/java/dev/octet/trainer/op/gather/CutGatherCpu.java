package dev.octet.trainer.op.gather;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Indices;

/** As a lookup in a whole table, past the rows of others. */
final class CutGatherCpu implements CpuKernel<CutGather> {
    @Override
    public void forward(CutGather op, Frame<CpuTensor> frame, CpuContext cpu) {
        GatherCpu.forward(op.rows(), rows(op, frame), frame, cpu);
    }

    @Override
    public void backward(CutGather op, Frame<CpuTensor> frame, CpuContext cpu) {
        GatherCpu.backward(op.rows(), rows(op, frame), frame, cpu);
    }

    private static int[] rows(CutGather op, Frame<CpuTensor> frame) {
        return op.own(Indices.resolve(op.rows().node(), frame.input(1), op.all()));
    }
}
