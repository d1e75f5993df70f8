package dev.octet.trainer.op.update;

/** torch's order of operations in F32, scalars in F64 as torch has them. */
final class AdamTile implements ElementStep.TileStep {
    private final float factor;
    private final float decay;
    private final float kept;
    private final float weight1;
    private final float beta2;
    private final float weight2;
    private final float root;
    private final float eps;
    private final float size;

    AdamTile(AdamStep op, StepScalars s) {
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
    public void run(float[] p, float[] g, float[][] buffers, int n) {
        moments(p, g, buffers[0], buffers[1], n);
        step(p, buffers[0], buffers[1], n);
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
