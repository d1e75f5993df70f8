package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Slot by slot. */
public final class WindowUpdateCpu implements CpuKernel.Forward<WindowUpdate> {
    @Override
    public void forward(WindowUpdate op, Frame<CpuTensor> frame, CpuContext cpu) {
        boolean counts = frame.input(0).readNumber(0) == 0;
        for (int slot = 0; slot < op.slots().size(); slot++) {
            float[] quantScale = new float[1];
            float[] window = new float[op.slots().get(slot).rule().length()];
            frame.input(2 * slot + 1).read(0, quantScale, 0, 1);
            frame.input(2 * slot + 2).read(0, window, 0, window.length);
            if (counts) {
                quantScale[0] = op.update(slot, window, quantScale[0]);
            }
            frame.output(2 * slot).write(0, quantScale, 0, 1);
            frame.output(2 * slot + 1).write(0, window, 0, window.length);
        }
    }
}
