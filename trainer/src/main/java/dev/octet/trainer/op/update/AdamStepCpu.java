package dev.octet.trainer.op.update;

import static dev.octet.trainer.op.update.UpdateCpu.keep;
import static dev.octet.trainer.op.update.UpdateCpu.scalar;
import static dev.octet.trainer.op.update.UpdateCpu.tiles;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** One pass over the four arrays. */
final class AdamStepCpu implements CpuKernel.Forward<AdamStep> {
    @Override
    public void forward(AdamStep op, Frame<CpuTensor> frame, CpuContext cpu) {
        StepScalars s = op.scalars(i -> scalar(frame, i));
        if (s.leftOut()) {
            keep(frame, 0, 0);
            keep(frame, 2, 1);
            keep(frame, 3, 2);
            return;
        }
        tiles(op.p().count(), cpu, () -> {
            ElementStep.TileStep tile = op.now(i -> scalar(frame, i)).tile(s);
            float[] p = new float[CpuContext.TILE];
            float[] g = new float[CpuContext.TILE];
            float[][] moments = new float[2][CpuContext.TILE];
            return (from, n) -> {
                frame.input(0).read(from, p, 0, n);
                frame.input(1).read(from, g, 0, n);
                frame.input(2).read(from, moments[0], 0, n);
                frame.input(3).read(from, moments[1], 0, n);
                tile.run(p, g, moments, n);
                frame.output(0).write(from, p, 0, n);
                frame.output(1).write(from, moments[0], 0, n);
                frame.output(2).write(from, moments[1], 0, n);
            };
        });
    }
}
