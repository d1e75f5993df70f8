package dev.octet.trainer.op.qat;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** A sample a piece, tile by tile, twice: its largest magnitude, then its codes. */
final class GradientQuantizeCpu implements CpuKernel<GradientQuantize> {
    @Override
    public void forward(GradientQuantize op, Frame<CpuTensor> frame, CpuContext cpu) {
        frame.output(0).bytes().copyFrom(frame.input(0).bytes());
    }

    @Override
    public void backward(GradientQuantize op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dy = frame.upstream(0);
        CpuTensor dx = frame.gradient(0);
        CpuTensor draw = frame.input(1);
        long key = op.key(draw.readLong(0), draw.readLong(1));
        long size = op.size();
        cpu.parallel().pieces(op.samples(), sample -> {
            float[] tile = new float[(int) Math.min(CpuContext.TILE, size)];
            long from = sample * size;
            float m = 0;
            for (long at = from; at < from + size; at += tile.length) {
                int n = (int) Math.min(tile.length, from + size - at);
                dy.read(at, tile, 0, n);
                for (int i = 0; i < n; i++) {
                    m = Math.max(m, Math.abs(tile[i]));
                }
            }
            for (long at = from; at < from + size; at += tile.length) {
                int n = (int) Math.min(tile.length, from + size - at);
                dy.read(at, tile, 0, n);
                for (int i = 0; i < n; i++) {
                    tile[i] = op.gradient(tile[i], m, GradientQuantize.noise(key, at + i));
                }
                dx.write(at, tile, 0, n);
            }
        });
    }
}
