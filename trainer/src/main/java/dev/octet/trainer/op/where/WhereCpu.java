package dev.octet.trainer.op.where;

import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.RepeatedGradient;
import dev.octet.trainer.kernel.VectorMath;

/** Tile by tile; wide integers and F64, which are rare and small, one by one. */
final class WhereCpu implements CpuKernel<Where> {
    @Override
    public void forward(Where op, Frame<CpuTensor> frame, CpuContext cpu) {
        Broadcast broadcast = WhereReference.broadcast(op);
        CpuTensor condition = frame.input(0);
        CpuTensor y = frame.output(0);
        if (!CpuTensor.fitsTiles(y.dtype())) {
            for (long i = 0; i < y.count(); i++) {
                int taken = condition.readLong(broadcast.index(0, i)) != 0 ? 1 : 2;
                y.writeNumber(i, frame.input(taken).readNumber(broadcast.index(taken, i)));
            }
            return;
        }
        CpuTensor a = frame.input(1);
        CpuTensor b = frame.input(2);
        cpu.parallel().ranges(y.count(), CpuContext.GRAIN, (from, to) -> {
            float[] tc = new float[CpuContext.TILE];
            float[] ta = new float[CpuContext.TILE];
            float[] tb = new float[CpuContext.TILE];
            for (long at = from; at < to; at += CpuContext.TILE) {
                int n = (int) Math.min(CpuContext.TILE, to - at);
                broadcast.read(0, condition, at, tc, n);
                broadcast.read(1, a, at, ta, n);
                broadcast.read(2, b, at, tb, n);
                VectorMath.select(tc, ta, tb, ta, n); // truth values are 0 and 1
                y.write(at, ta, 0, n);
            }
        });
    }

    @Override
    public void backward(Where op, Frame<CpuTensor> frame, CpuContext cpu) {
        Broadcast broadcast = WhereReference.broadcast(op);
        CpuTensor g = frame.upstream(0);
        CpuTensor condition = frame.input(0);
        RepeatedGradient.run(broadcast, 3, frame, cpu, (from, n, scratch, gradients) -> {
            float[] up = scratch[0];
            float[] tc = scratch[1];
            g.read(from, up, 0, n);
            broadcast.read(0, condition, from, tc, n);
            float[] zeros = scratch[3]; // as it was made
            VectorMath.select(tc, up, zeros, gradients[1], n);
            VectorMath.select(tc, zeros, up, gradients[2], n);
        });
    }
}
