package dev.octet.trainer.op.dropout;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Tile by tile. */
final class DropoutCpu implements CpuKernel<Dropout> {
    @Override
    public void forward(Dropout op, Frame<CpuTensor> frame, CpuContext cpu) {
        keep(op, frame.input(1), frame.input(0), frame.output(0), cpu);
    }

    @Override
    public void backward(Dropout op, Frame<CpuTensor> frame, CpuContext cpu) {
        keep(op, frame.input(1), frame.upstream(0), frame.gradient(0), cpu);
    }

    private static void keep(Dropout op, CpuTensor draw, CpuTensor from, CpuTensor to, CpuContext cpu) {
        long key = op.key(draw.readLong(0), draw.readLong(1));
        int threshold = op.threshold();
        float factor = op.factor();
        cpu.parallel().ranges(to.count(), CpuContext.TILE, (first, end) -> {
            float[] tile = new float[(int) (end - first)];
            from.read(first, tile, 0, tile.length);
            for (int i = 0; i < tile.length; i++) {
                tile[i] = Dropout.bits(key, first + i) >= threshold ? tile[i] * factor : 0;
            }
            to.write(first, tile, 0, tile.length);
        });
    }
}
