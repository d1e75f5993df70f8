package dev.octet.trainer.op.binary;

import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.RepeatedGradient;

/** Tile by tile in F32; integers and F64, which are rare and small, one by one in F64. */
final class BinaryCpu implements CpuKernel<Binary> {
    @Override
    public void forward(Binary op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor a = frame.input(0);
        CpuTensor b = frame.input(1);
        CpuTensor y = frame.output(0);
        Broadcast broadcast = Broadcast.of(y.shape(), a.shape(), b.shape());
        if (!op.inTiles()) {
            for (long i = 0; i < y.count(); i++) {
                y.writeNumber(i, op.value(a.readNumber(broadcast.index(0, i)), b.readNumber(broadcast.index(1, i))));
            }
            return;
        }
        cpu.parallel().ranges(y.count(), CpuContext.GRAIN, (from, to) -> {
            float[] ta = new float[CpuContext.TILE];
            float[] tb = new float[CpuContext.TILE];
            for (long at = from; at < to; at += CpuContext.TILE) {
                int n = (int) Math.min(CpuContext.TILE, to - at);
                broadcast.read(0, a, at, ta, n);
                broadcast.read(1, b, at, tb, n);
                op.value(ta, tb, ta, n);
                y.write(at, ta, 0, n);
            }
        });
    }

    @Override
    public void backward(Binary op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor g = frame.upstream(0);
        Pair p = op.pair();
        Broadcast broadcast = Broadcast.of(p.y().shape(), p.a().shape(), p.b().shape());
        RepeatedGradient.run(broadcast, 2, frame, cpu, new Gradients(op, frame, broadcast, g));
    }

    /** The gradients of a tile, before repetitions are summed. */
    private record Gradients(Binary op, Frame<CpuTensor> frame, Broadcast broadcast, CpuTensor g)
            implements RepeatedGradient.Tiles {
        @Override
        public void compute(long from, int n, float[][] scratch, float[][] gradients) {
            float[] up = scratch[0];
            g.read(from, up, 0, n);
            for (int i = 0; i < 2; i++) {
                if ((frame.wantsGradient(0) && op.reads(0, i)) || (frame.wantsGradient(1) && op.reads(1, i))) {
                    broadcast.read(i, frame.input(i), from, scratch[1 + i], n);
                }
            }
            for (int i = 0; i < 2; i++) {
                if (frame.wantsGradient(i)) {
                    op.gradient(i, up, scratch[1], scratch[2], gradients[i], n);
                }
            }
        }
    }
}
