package dev.octet.trainer.op.expand;

import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.RepeatedGradient;

/** Tile by tile; wide integers and F64, which are rare and small, one by one. */
final class ExpandCpu implements CpuKernel<Expand> {
    @Override
    public void forward(Expand op, Frame<CpuTensor> frame, CpuContext cpu) {
        Broadcast broadcast = op.broadcast();
        CpuTensor x = frame.input(0);
        CpuTensor y = frame.output(0);
        if (!CpuTensor.fitsTiles(x.dtype())) {
            for (long i = 0; i < y.count(); i++) {
                y.writeNumber(i, x.readNumber(broadcast.index(0, i)));
            }
            return;
        }
        cpu.parallel().ranges(y.count(), CpuContext.GRAIN, (from, to) -> {
            float[] tile = new float[CpuContext.TILE];
            for (long at = from; at < to; at += CpuContext.TILE) {
                int n = (int) Math.min(CpuContext.TILE, to - at);
                broadcast.read(0, x, at, tile, n);
                y.write(at, tile, 0, n);
            }
        });
    }

    @Override
    public void backward(Expand op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dy = frame.upstream(0);
        RepeatedGradient.run(
                op.broadcast(), 1, frame, cpu, (from, n, scratch, gradients) -> dy.read(from, gradients[0], 0, n));
    }
}
