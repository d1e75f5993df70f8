package dev.octet.trainer.op.transpose;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Runs of elements are copied where the innermost axis stays; else blocks that fit the cache are turned. */
final class TransposeCpu implements CpuKernel<Transpose> {
    @Override
    public void forward(Transpose op, Frame<CpuTensor> frame, CpuContext cpu) {
        Permutation.of(op.x().shape(), op.order()).run(frame.input(0), frame.output(0), cpu.parallel());
    }

    @Override
    public void backward(Transpose op, Frame<CpuTensor> frame, CpuContext cpu) {
        Transpose back = op.inverse();
        Permutation.of(back.x().shape(), back.order()).run(frame.upstream(0), frame.gradient(0), cpu.parallel());
    }
}
