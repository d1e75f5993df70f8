package dev.octet.trainer.op.update;

import static dev.octet.trainer.op.update.UpdateCpu.keep;
import static dev.octet.trainer.op.update.UpdateCpu.scalar;
import static dev.octet.trainer.op.update.UpdateCpu.tiles;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** The CPU twins of Muon's operators: one pass each, in F32. */
final class MuonCpu {
    private MuonCpu() {}

    static void momentum(MuonMomentum op, Frame<CpuTensor> frame, CpuContext cpu) {
        if (scalar(frame, 3) != 0) {
            frame.output(0).bytes().fill((byte) 0);
            keep(frame, 1, 1);
            return;
        }
        float factor = scalar(frame, 2);
        float momentum = (float) op.momentum();
        float weight = (float) (1 - op.momentum());
        tiles(op.g().count(), cpu, () -> {
            float[] g = new float[CpuContext.TILE];
            float[] m = new float[CpuContext.TILE];
            return (from, n) -> {
                frame.input(0).read(from, g, 0, n);
                frame.input(1).read(from, m, 0, n);
                for (int i = 0; i < n; i++) {
                    float x = g[i] * factor;
                    m[i] = m[i] + weight * (x - m[i]);
                    g[i] = op.nesterov() ? x + momentum * (m[i] - x) : m[i];
                }
                frame.output(0).write(from, g, 0, n);
                frame.output(1).write(from, m, 0, n);
            };
        });
    }

    static void scale(MuonScale op, Frame<CpuTensor> frame, CpuContext cpu) {
        float factor = (float) op.factor(frame.input(1).bytes().get(Tensor.F64_LE, 0));
        tiles(op.x().count(), cpu, () -> {
            float[] x = new float[CpuContext.TILE];
            return (from, n) -> {
                frame.input(0).read(from, x, 0, n);
                for (int i = 0; i < n; i++) {
                    x[i] *= factor;
                }
                frame.output(0).write(from, x, 0, n);
            };
        });
    }

    static void step(MuonStep op, Frame<CpuTensor> frame, CpuContext cpu) {
        if (scalar(frame, 3) != 0) {
            keep(frame, 0, 0);
            return;
        }
        double lr = scalar(frame, 2);
        float kept = (float) (1 - lr * op.weightDecay());
        float size = (float) (lr * op.adjustment());
        tiles(op.p().count(), cpu, () -> {
            float[] p = new float[CpuContext.TILE];
            float[] o = new float[CpuContext.TILE];
            return (from, n) -> {
                frame.input(0).read(from, p, 0, n);
                frame.input(1).read(from, o, 0, n);
                for (int i = 0; i < n; i++) {
                    p[i] = p[i] * kept - size * o[i];
                }
                frame.output(0).write(from, p, 0, n);
            };
        });
    }
}
