package dev.octet.trainer.op.update;

import static dev.octet.trainer.op.update.UpdateCpu.keep;
import static dev.octet.trainer.op.update.UpdateCpu.scalar;
import static dev.octet.trainer.op.update.UpdateCpu.tiles;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** One pass over the arrays. */
final class SgdStepCpu implements CpuKernel.Forward<SgdStep> {
    @Override
    public void forward(SgdStep op, Frame<CpuTensor> frame, CpuContext cpu) {
        StepScalars s = op.scalars(i -> scalar(frame, i));
        if (s.leftOut()) {
            keep(frame, 0, 0);
            if (op.hasBuffer()) {
                keep(frame, SgdStep.BUFFER, 1);
            }
            return;
        }
        tiles(op.p().count(), cpu, () -> {
            ElementStep.TileStep tile = op.tile(s);
            float[] p = new float[CpuContext.TILE];
            float[] g = new float[CpuContext.TILE];
            float[][] b = new float[op.buffers()][CpuContext.TILE];
            return (from, n) -> {
                frame.input(0).read(from, p, 0, n);
                frame.input(1).read(from, g, 0, n);
                if (op.hasBuffer()) {
                    frame.input(SgdStep.BUFFER).read(from, b[0], 0, n);
                }
                tile.run(p, g, b, n);
                frame.output(0).write(from, p, 0, n);
                if (op.hasBuffer()) {
                    frame.output(1).write(from, b[0], 0, n);
                }
            };
        });
    }
}
