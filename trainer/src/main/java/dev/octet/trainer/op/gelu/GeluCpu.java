package dev.octet.trainer.op.gelu;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.VectorMath;

/** Tile by tile. */
public final class GeluCpu implements CpuKernel<Gelu> {
    /** Elements of a piece. */
    private static final long GRAIN = 8L * CpuContext.TILE;

    private static final float SQRT_HALF = (float) Math.sqrt(0.5);
    /** Density of the normal distribution at 0. */
    private static final float DENSITY = (float) (1 / Math.sqrt(2 * Math.PI));

    private static final float SLOPE = (float) Gelu.SLOPE;
    private static final float CUBE = (float) Gelu.CUBE;

    @Override
    public void forward(Gelu op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor x = frame.input(0);
        CpuTensor y = frame.output(0);
        cpu.parallel().ranges(x.count(), GRAIN, (from, to) -> {
            float[] tile = new float[CpuContext.TILE];
            float[] function = new float[CpuContext.TILE];
            for (long at = from; at < to; at += CpuContext.TILE) {
                int n = (int) Math.min(CpuContext.TILE, to - at);
                x.read(at, tile, 0, n);
                function(op, tile, function, n);
                for (int i = 0; i < n; i++) {
                    tile[i] = 0.5f * tile[i] * (1 + function[i]);
                }
                y.write(at, tile, 0, n);
            }
        });
    }

    /** erf(x / √2), or the tanh that takes its place. */
    private static void function(Gelu op, float[] x, float[] to, int n) {
        if (op.tanh()) {
            for (int i = 0; i < n; i++) {
                to[i] = SLOPE * (x[i] + CUBE * x[i] * x[i] * x[i]);
            }
            VectorMath.tanh(to, 0, to, 0, n);
        } else {
            for (int i = 0; i < n; i++) {
                to[i] = SQRT_HALF * x[i];
            }
            VectorMath.erf(to, 0, to, 0, n);
        }
    }

    @Override
    public void backward(Gelu op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor x = frame.input(0);
        CpuTensor dy = frame.upstream(0);
        CpuTensor dx = frame.gradient(0);
        cpu.parallel().ranges(x.count(), GRAIN, (from, to) -> {
            float[] tile = new float[CpuContext.TILE];
            float[] function = new float[CpuContext.TILE];
            float[] up = new float[CpuContext.TILE];
            for (long at = from; at < to; at += CpuContext.TILE) {
                int n = (int) Math.min(CpuContext.TILE, to - at);
                x.read(at, tile, 0, n);
                dy.read(at, up, 0, n);
                function(op, tile, function, n);
                if (op.tanh()) {
                    throughTanh(tile, function, up, n);
                } else {
                    throughErf(tile, function, up, n);
                }
                dx.write(at, up, 0, n);
            }
        });
    }

    private static void throughTanh(float[] x, float[] tanh, float[] up, int n) {
        for (int i = 0; i < n; i++) {
            float t = tanh[i];
            float inner = SLOPE * (1 + 3 * CUBE * x[i] * x[i]);
            up[i] *= 0.5f * (1 + t) + 0.5f * x[i] * (1 - t * t) * inner;
        }
    }

    private static void throughErf(float[] x, float[] erf, float[] up, int n) {
        float[] density = new float[n];
        for (int i = 0; i < n; i++) {
            density[i] = -0.5f * x[i] * x[i];
        }
        VectorMath.exp(density, 0, density, 0, n);
        for (int i = 0; i < n; i++) {
            up[i] *= 0.5f * (1 + erf[i]) + x[i] * DENSITY * density[i];
        }
    }
}
