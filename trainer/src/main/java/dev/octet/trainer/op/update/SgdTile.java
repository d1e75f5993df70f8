package dev.octet.trainer.op.update;

/** torch's order of operations in F32. */
final class SgdTile implements ElementStep.TileStep {
    private final SgdStep op;
    private final float lr;
    private final float factor;
    private final boolean first;

    SgdTile(SgdStep op, StepScalars s) {
        this.op = op;
        lr = (float) s.lr();
        first = s.t() == 1;
        factor = (float) s.factor();
    }

    @Override
    public void run(float[] p, float[] g, float[][] buffers, int n) {
        gradient(p, g, n, factor, (float) op.weightDecay());
        if (op.hasBuffer()) {
            momentum(g, buffers[0], n);
        }
        for (int i = 0; i < n; i++) {
            p[i] = p[i] - lr * g[i];
        }
    }

    private static void gradient(float[] x, float[] dx, int n, float factor, float decay) {
        for (int i = 0; i < n; i++) {
            dx[i] = dx[i] * factor + decay * x[i];
        }
    }

    /** Moves b on, and puts into {@code g} what p moves by. */
    private void momentum(float[] g, float[] b, int n) {
        float momentum = (float) op.momentum();
        if (first) {
            System.arraycopy(g, 0, b, 0, n);
        } else {
            float weight = (float) (1 - op.dampening());
            for (int i = 0; i < n; i++) {
                b[i] = b[i] * momentum + weight * g[i];
            }
        }
        if (op.nesterov()) {
            for (int i = 0; i < n; i++) {
                g[i] = g[i] + momentum * b[i];
            }
        } else {
            System.arraycopy(b, 0, g, 0, n);
        }
    }
}
