package dev.octet.trainer.op.cast;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Tile by tile, through F32; integers to integers through I64. */
final class CastCpu implements CpuKernel<Cast> {
    @Override
    public void forward(Cast op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor x = frame.input(0);
        CpuTensor y = frame.output(0);
        boolean integers = !op.from().dtype().isFloat() && !op.to().isFloat();
        cpu.parallel().ranges(x.count(), CpuContext.TILE, (from, to) -> {
            if (integers) {
                for (long i = from; i < to; i++) {
                    long value = x.readLong(i);
                    y.writeLong(i, op.to() == DType.BOOL && value != 0 ? 1 : value);
                }
            } else {
                floats(x, y, from, (int) (to - from));
            }
        });
    }

    private static void floats(CpuTensor x, CpuTensor y, long from, int n) {
        float[] tile = new float[n];
        x.read(from, tile, 0, n);
        if (y.dtype() == DType.BOOL) {
            for (int i = 0; i < n; i++) {
                tile[i] = tile[i] == 0 ? 0 : 1;
            }
        }
        y.write(from, tile, 0, n);
    }

    @Override
    public void backward(Cast op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dy = frame.upstream(0);
        CpuTensor dx = frame.gradient(0);
        boolean add = frame.accumulates(0);
        cpu.parallel().ranges(dx.count(), CpuContext.TILE, (from, to) -> {
            int n = (int) (to - from);
            float[] tile = new float[n];
            dy.read(from, tile, 0, n);
            if (add) {
                float[] sum = new float[n];
                dx.read(from, sum, 0, n);
                for (int i = 0; i < n; i++) {
                    tile[i] += sum[i];
                }
            }
            dx.write(from, tile, 0, n);
        });
    }
}
