package dev.octet.trainer.op.host;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** A copy within the host's memory. */
final class HostCopyCpu implements CpuKernel.Forward<HostCopy> {
    @Override
    public void forward(HostCopy op, Frame<CpuTensor> frame, CpuContext cpu) {
        if (op.stage().starts()) {
            frame.output(0).bytes().copyFrom(frame.input(0).bytes());
        }
    }
}
