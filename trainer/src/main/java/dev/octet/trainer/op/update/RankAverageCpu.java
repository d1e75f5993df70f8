package dev.octet.trainer.op.update;

import static dev.octet.trainer.op.update.UpdateCpu.tiles;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Tile by tile. */
final class RankAverageCpu implements CpuKernel.Forward<RankAverage> {
    @Override
    public void forward(RankAverage op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor y = frame.output(0);
        tiles(op.g().count(), cpu, () -> {
            float[] sum = new float[CpuContext.TILE];
            float[] more = new float[CpuContext.TILE];
            return (from, n) -> {
                for (int r = 0; r < op.ranks(); r++) {
                    frame.input(r).read(from, more, 0, n);
                    for (int i = 0; i < n; i++) {
                        sum[i] = (r == 0 ? 0 : sum[i]) + more[i] * op.factor();
                    }
                }
                y.write(from, sum, 0, n);
            };
        });
    }
}
