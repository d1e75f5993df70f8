package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Slot by slot. */
public final class AmaxUpdateCpu implements CpuKernel.Forward<AmaxUpdate> {
    @Override
    public void forward(AmaxUpdate op, Frame<CpuTensor> frame, CpuContext cpu) {
        cpu.parallel().pieces(op.slots().size(), slot -> {
            CpuTensor scale = frame.input(2 * slot);
            CpuTensor history = frame.input(2 * slot + 1);
            float[] quantScale = new float[1];
            float[] all = new float[op.slots().get(slot).length()];
            scale.read(0, quantScale, 0, 1);
            history.read(0, all, 0, all.length);
            quantScale[0] = op.update(slot, all, quantScale[0]);
            frame.output(2 * slot).write(0, quantScale, 0, 1);
            frame.output(2 * slot + 1).write(0, all, 0, all.length);
        });
    }
}
