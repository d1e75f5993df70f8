package dev.octet.trainer.op.gelu;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Tile by tile. */
public final class GeluCpu implements CpuKernel<Gelu> {
    @Override
    public void forward(Gelu op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor x = frame.input(0);
        CpuTensor y = frame.output(0);
        cpu.parallel().ranges(x.count(), CpuContext.TILE, (from, to) -> {
            int n = (int) (to - from);
            float[] tile = new float[n];
            x.read(from, tile, 0, n);
            for (int i = 0; i < n; i++) {
                tile[i] = (float) (tile[i] * GeluReference.share(op, tile[i]));
            }
            y.write(from, tile, 0, n);
        });
    }

    @Override
    public void backward(Gelu op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor x = frame.input(0);
        CpuTensor dy = frame.upstream(0);
        CpuTensor dx = frame.gradient(0);
        cpu.parallel().ranges(x.count(), CpuContext.TILE, (from, to) -> {
            int n = (int) (to - from);
            float[] tile = new float[n];
            float[] up = new float[n];
            x.read(from, tile, 0, n);
            dy.read(from, up, 0, n);
            for (int i = 0; i < n; i++) {
                up[i] = (float) (up[i] * GeluReference.derivative(op, tile[i]));
            }
            dx.write(from, up, 0, n);
        });
    }
}
