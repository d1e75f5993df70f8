package dev.octet.trainer.op.view;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Copies; for where input and output cannot share memory. */
final class ViewCpu implements CpuKernel<View> {
    @Override
    public void forward(View op, Frame<CpuTensor> frame, CpuContext cpu) {
        frame.output(0).bytes().copyFrom(frame.input(0).bytes());
    }

    @Override
    public void backward(View op, Frame<CpuTensor> frame, CpuContext cpu) {
        frame.gradient(0).bytes().copyFrom(frame.upstream(0).bytes());
    }
}
