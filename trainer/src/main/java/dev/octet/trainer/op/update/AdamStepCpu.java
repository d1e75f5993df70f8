package dev.octet.trainer.op.update;

import static dev.octet.trainer.op.update.UpdateCpu.keep;
import static dev.octet.trainer.op.update.UpdateCpu.scalar;
import static dev.octet.trainer.op.update.UpdateCpu.tiles;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** One pass over the four arrays; torch's order of operations in F32, scalars in F64 as torch has them. */
final class AdamStepCpu implements CpuKernel.Forward<AdamStep> {
    @Override
    public void forward(AdamStep op, Frame<CpuTensor> frame, CpuContext cpu) {
        AdamStep.Scalars s = op.scalars(i -> scalar(frame, i));
        if (s.leftOut()) {
            keep(frame, 0, 0);
            keep(frame, 2, 1);
            keep(frame, 3, 2);
            return;
        }
        tiles(op.p().count(), cpu, () -> new Piece(op, frame, s));
    }

    private static final class Piece implements UpdateCpu.Tile {
        private final Frame<CpuTensor> frame;
        private final float[] p = new float[CpuContext.TILE];
        private final float[] g = new float[CpuContext.TILE];
        private final float[] m = new float[CpuContext.TILE];
        private final float[] v = new float[CpuContext.TILE];
        private final float factor;
        private final float decay;
        private final float kept;
        private final float weight1;
        private final float beta2;
        private final float weight2;
        private final float root;
        private final float eps;
        private final float size;

        Piece(AdamStep op, Frame<CpuTensor> frame, AdamStep.Scalars s) {
            this.frame = frame;
            factor = (float) s.factor();
            decay = (float) op.coupledDecay();
            kept = (float) op.kept(s);
            weight1 = (float) (1 - op.beta1());
            beta2 = (float) op.beta2();
            weight2 = (float) (1 - op.beta2());
            root = (float) op.rootCorrection(s);
            eps = (float) op.eps();
            size = (float) -op.stepSize(s);
        }

        @Override
        public void run(long from, int n) {
            frame.input(0).read(from, p, 0, n);
            frame.input(1).read(from, g, 0, n);
            frame.input(2).read(from, m, 0, n);
            frame.input(3).read(from, v, 0, n);
            moments(p, g, m, v, n);
            step(p, m, v, n);
            frame.output(0).write(from, p, 0, n);
            frame.output(1).write(from, m, 0, n);
            frame.output(2).write(from, v, 0, n);
        }

        private void moments(float[] x, float[] gradient, float[] first, float[] second, int n) {
            float f = factor;
            float d = decay;
            float w1 = weight1;
            float b2 = beta2;
            float w2 = weight2;
            for (int i = 0; i < n; i++) {
                float dx = gradient[i] * f + d * x[i];
                first[i] = first[i] + w1 * (dx - first[i]);
                second[i] = second[i] * b2 + w2 * dx * dx;
            }
        }

        private void step(float[] x, float[] first, float[] second, int n) {
            float k = kept;
            float r = root;
            float e = eps;
            float s = size;
            for (int i = 0; i < n; i++) {
                float divisor = (float) Math.sqrt(second[i]) / r + e;
                x[i] = x[i] * k + s * first[i] / divisor;
            }
        }
    }
}
