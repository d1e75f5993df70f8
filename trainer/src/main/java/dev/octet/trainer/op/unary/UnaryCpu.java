package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Tile by tile in F32; wide integers and F64, which are rare and small, one by one in F64. */
final class UnaryCpu implements CpuKernel<Unary> {
    @Override
    public void forward(Unary op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor x = frame.input(0);
        CpuTensor y = frame.output(0);
        if (!CpuTensor.fitsTiles(x.dtype())) {
            for (long i = 0; i < y.count(); i++) {
                y.writeNumber(i, op.value(x.readNumber(i)));
            }
            return;
        }
        cpu.parallel().ranges(y.count(), CpuContext.GRAIN, (from, to) -> {
            float[] tile = new float[CpuContext.TILE];
            for (long at = from; at < to; at += CpuContext.TILE) {
                int n = (int) Math.min(CpuContext.TILE, to - at);
                x.read(at, tile, 0, n);
                op.value(tile, tile, n);
                y.write(at, tile, 0, n);
            }
        });
    }

    @Override
    public void backward(Unary op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor g = frame.upstream(0);
        CpuTensor dx = frame.gradient(0);
        CpuTensor saved = switch (op.function().gradient().saved()) {
            case INPUT -> frame.input(0);
            case OUTPUT -> frame.output(0);
            case NOTHING -> null;
        };
        cpu.parallel().ranges(dx.count(), CpuContext.GRAIN, (from, to) -> {
            float[] up = new float[CpuContext.TILE];
            float[] value = new float[CpuContext.TILE];
            float[] result = new float[CpuContext.TILE];
            for (long at = from; at < to; at += CpuContext.TILE) {
                int n = (int) Math.min(CpuContext.TILE, to - at);
                g.read(at, up, 0, n);
                if (saved != null) {
                    saved.read(at, value, 0, n);
                }
                op.gradient(up, value, result, n);
                dx.write(at, result, 0, n);
            }
        });
    }
}
