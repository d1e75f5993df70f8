package dev.octet.trainer.op.accumulate;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Tile by tile; in place when y is a. */
final class AccumulateCpu implements CpuKernel<Accumulate> {
    @Override
    public void forward(Accumulate op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor a = frame.input(0);
        CpuTensor x = frame.input(1);
        CpuTensor y = frame.output(0);
        cpu.parallel().ranges(y.count(), CpuContext.TILE, (from, to) -> {
            int n = (int) (to - from);
            float[] sum = new float[n];
            float[] more = new float[n];
            a.read(from, sum, 0, n);
            x.read(from, more, 0, n);
            for (int i = 0; i < n; i++) {
                sum[i] += more[i];
            }
            y.write(from, sum, 0, n);
        });
    }

    @Override
    public void backward(Accumulate op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dy = frame.upstream(0);
        for (int input = 0; input < 2; input++) {
            if (frame.wantsGradient(input)) {
                CpuTensor dx = frame.gradient(input);
                cpu.parallel().ranges(dy.count(), CpuContext.TILE, (from, to) -> {
                    float[] tile = new float[(int) (to - from)];
                    dy.read(from, tile, 0, tile.length);
                    dx.write(from, tile, 0, tile.length);
                });
            }
        }
    }
}
