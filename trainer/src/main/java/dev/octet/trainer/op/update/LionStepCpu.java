package dev.octet.trainer.op.update;

import static dev.octet.trainer.op.update.UpdateCpu.keep;
import static dev.octet.trainer.op.update.UpdateCpu.scalar;
import static dev.octet.trainer.op.update.UpdateCpu.tiles;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** One pass over the arrays. */
final class LionStepCpu implements CpuKernel.Forward<LionStep> {
    @Override
    public void forward(LionStep op, Frame<CpuTensor> frame, CpuContext cpu) {
        StepScalars s = op.scalars(i -> scalar(frame, i));
        if (s.leftOut()) {
            keep(frame, 0, 0);
            keep(frame, LionStep.MOMENT, 1);
            return;
        }
        tiles(op.p().count(), cpu, () -> {
            ElementStep.TileStep tile = op.tile(s);
            float[] p = new float[CpuContext.TILE];
            float[] g = new float[CpuContext.TILE];
            float[][] m = new float[1][CpuContext.TILE];
            return (from, n) -> {
                frame.input(0).read(from, p, 0, n);
                frame.input(1).read(from, g, 0, n);
                frame.input(LionStep.MOMENT).read(from, m[0], 0, n);
                tile.run(p, g, m, n);
                frame.output(0).write(from, p, 0, n);
                frame.output(1).write(from, m[0], 0, n);
            };
        });
    }
}
