package dev.octet.trainer.op.gelu;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.VectorMath;

/**
 * Tile by tile, with one exponential for each element.
 *
 * <p>By tanh: (1 + tanh u) / 2 is the logistic function of 2u, s = 1 / (1 + e^-2u). So y = x s, and backward has 2 s (1 - s) in
 * place of (1 - tanh² u) / 2.
 *
 * <p>Exact: with e = exp(-x²/2), the tail q = 1 - Φ(|x|) is e · t · P(t) / 2 for t = 1 / (1 + 0.3275911 |x| / √2) and a polynomial P
 * (Abramowitz and Stegun, 7.1.26), off by at most 7.5e-8. Then y = max(x, 0) - |x| q, which needs no branch; and backward uses e again,
 * for the density.
 */
final class GeluCpu implements CpuKernel<Gelu> {
    /** Elements of a piece. */
    private static final long GRAIN = 8L * CpuContext.TILE;

    /** Density of the normal distribution at 0. */
    private static final float DENSITY = (float) (1 / Math.sqrt(2 * Math.PI));

    /** Takes all numbers that count beyond 1. */
    private static final float HUGE = 1e30f;

    /** 0.3275911 / √2. */
    private static final float T_SLOPE = (float) (0.3275911 * Math.sqrt(0.5));

    /** Halves of the coefficients of P. */
    private static final float P_1 = (float) (0.5 * 0.254829592);

    private static final float P_2 = (float) (0.5 * -0.284496736);
    private static final float P_3 = (float) (0.5 * 1.421413741);
    private static final float P_4 = (float) (0.5 * -1.453152027);
    private static final float P_5 = (float) (0.5 * 1.061405429);

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
                if (op.tanh()) {
                    decay(tile, function, n);
                    logistic(tile, function, n);
                } else {
                    bell(tile, function, n);
                    withoutTail(tile, function, n);
                }
                y.write(at, tile, 0, n);
            }
        });
    }

    /** e^-2u for u = √(2/π) (x + 0.044715 x³). */
    private static void decay(float[] x, float[] to, int n) {
        for (int i = 0; i < n; i++) {
            to[i] = -2 * SLOPE * (x[i] + CUBE * x[i] * x[i] * x[i]);
        }
        VectorMath.exp(to, 0, to, 0, n);
    }

    private static void logistic(float[] x, float[] decay, int n) {
        for (int i = 0; i < n; i++) {
            x[i] *= 1 / (1 + decay[i]);
        }
    }

    /** exp(-x²/2). */
    private static void bell(float[] x, float[] to, int n) {
        for (int i = 0; i < n; i++) {
            to[i] = -0.5f * x[i] * x[i];
        }
        VectorMath.exp(to, 0, to, 0, n);
    }

    private static void withoutTail(float[] x, float[] bell, int n) {
        for (int i = 0; i < n; i++) {
            float a = Math.abs(x[i]);
            float t = 1 / (1 + T_SLOPE * a);
            float q = ((((P_5 * t + P_4) * t + P_3) * t + P_2) * t + P_1) * t * bell[i];
            x[i] = Math.max(x[i], 0) - a * q;
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
                if (op.tanh()) {
                    decay(tile, function, n);
                    throughLogistic(tile, function, up, n);
                } else {
                    bell(tile, function, n);
                    throughTail(tile, function, up, n);
                }
                dx.write(at, up, 0, n);
            }
        });
    }

    private static void throughLogistic(float[] x, float[] decay, float[] up, int n) {
        for (int i = 0; i < n; i++) {
            float s = 1 / (1 + decay[i]);
            float inner = SLOPE * (1 + 3 * CUBE * x[i] * x[i]);
            up[i] *= s + 2 * x[i] * (s * (1 - s)) * inner;
        }
    }

    /** Φ(x) = 1/2 ± (1/2 - q), by the sign of x. */
    private static void throughTail(float[] x, float[] bell, float[] up, int n) {
        for (int i = 0; i < n; i++) {
            float t = 1 / (1 + T_SLOPE * Math.abs(x[i]));
            float q = ((((P_5 * t + P_4) * t + P_3) * t + P_2) * t + P_1) * t * bell[i];
            // of the smallest numbers the sign does not matter: q is 1/2. (The compiler makes no vectors of a loop with
            // signum.)
            float sign = Math.max(-1, Math.min(1, x[i] * HUGE));
            up[i] *= 0.5f + sign * (0.5f - q) + x[i] * DENSITY * bell[i];
        }
    }
}
