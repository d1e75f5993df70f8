package dev.octet.trainer.op.update;

import static dev.octet.trainer.op.update.UpdateCpu.keep;
import static dev.octet.trainer.op.update.UpdateCpu.scalar;
import static dev.octet.trainer.op.update.UpdateCpu.tiles;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** One pass over the arrays; torch's order of operations in F32. */
final class SgdStepCpu implements CpuKernel.Forward<SgdStep> {
    @Override
    public void forward(SgdStep op, Frame<CpuTensor> frame, CpuContext cpu) {
        if (scalar(frame, 5) != 0) {
            keep(frame, 0, 0);
            if (op.hasBuffer()) {
                keep(frame, SgdStep.BUFFER, 1);
            }
            return;
        }
        tiles(op.p().count(), cpu, () -> new Piece(op, frame));
    }

    private static final class Piece implements UpdateCpu.Tile {
        private final SgdStep op;
        private final Frame<CpuTensor> frame;
        private final float[] p = new float[CpuContext.TILE];
        private final float[] g = new float[CpuContext.TILE];
        private final float[] b = new float[CpuContext.TILE];
        private final float lr;
        private final float factor;
        private final boolean first;

        Piece(SgdStep op, Frame<CpuTensor> frame) {
            this.op = op;
            this.frame = frame;
            lr = scalar(frame, 2);
            first = scalar(frame, 3) == 1;
            factor = scalar(frame, 4);
        }

        @Override
        public void run(long from, int n) {
            frame.input(0).read(from, p, 0, n);
            frame.input(1).read(from, g, 0, n);
            gradient(p, g, n, factor, (float) op.weightDecay());
            if (op.hasBuffer()) {
                momentum(from, n);
            }
            for (int i = 0; i < n; i++) {
                p[i] = p[i] - lr * g[i];
            }
            frame.output(0).write(from, p, 0, n);
        }

        private static void gradient(float[] x, float[] dx, int n, float factor, float decay) {
            for (int i = 0; i < n; i++) {
                dx[i] = dx[i] * factor + decay * x[i];
            }
        }

        /** Moves b on, and puts into {@code g} what p moves by. */
        private void momentum(long from, int n) {
            float momentum = (float) op.momentum();
            if (first) {
                System.arraycopy(g, 0, b, 0, n);
            } else {
                frame.input(SgdStep.BUFFER).read(from, b, 0, n);
                float weight = (float) (1 - op.dampening());
                for (int i = 0; i < n; i++) {
                    b[i] = b[i] * momentum + weight * g[i];
                }
            }
            frame.output(1).write(from, b, 0, n);
            if (op.nesterov()) {
                for (int i = 0; i < n; i++) {
                    g[i] = g[i] + momentum * b[i];
                }
            } else {
                System.arraycopy(b, 0, g, 0, n);
            }
        }
    }
}
