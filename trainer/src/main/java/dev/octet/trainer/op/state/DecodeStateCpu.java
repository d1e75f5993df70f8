package dev.octet.trainer.op.state;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.state.CpuState;

/** Tile by tile, through F32. */
final class DecodeStateCpu implements CpuKernel<DecodeState> {
    @Override
    public void forward(DecodeState op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuState x = CpuState.of(op.form(), op.tensor(), frame::input, 0, 0);
        CpuTensor y = frame.output(0);
        cpu.parallel().ranges(y.count(), CpuContext.GRAIN, (from, to) -> {
            float[] tile = new float[CpuContext.TILE];
            for (long at = from; at < to; at += CpuContext.TILE) {
                int n = (int) Math.min(CpuContext.TILE, to - at);
                x.read(at, tile, n);
                y.write(at, tile, 0, n);
            }
        });
    }

    @Override
    public void backward(DecodeState op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dy = frame.upstream(0);
        CpuTensor dx = frame.gradient(0);
        boolean add = frame.accumulates(0);
        cpu.parallel().ranges(dx.count(), CpuContext.GRAIN, (from, to) -> {
            float[] tile = new float[CpuContext.TILE];
            float[] sum = new float[CpuContext.TILE];
            for (long at = from; at < to; at += CpuContext.TILE) {
                int n = (int) Math.min(CpuContext.TILE, to - at);
                dy.read(at, tile, 0, n);
                if (add) {
                    dx.read(at, sum, 0, n);
                    for (int i = 0; i < n; i++) {
                        tile[i] += sum[i];
                    }
                }
                dx.write(at, tile, 0, n);
            }
        });
    }
}
