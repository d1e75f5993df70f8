package dev.octet.trainer.op.host;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** y = x. */
final class HostCopyReference implements ReferenceKernel.Forward<HostCopy> {
    @Override
    public void forward(HostCopy op, Frame<double[]> frame) {
        if (op.stage().starts()) {
            double[] x = frame.input(0);
            System.arraycopy(x, 0, frame.output(0), 0, x.length);
        }
    }
}
