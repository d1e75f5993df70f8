package dev.octet.trainer.op.binary;

/** {@code y = a - b}. */
public record Sub(Pair pair) implements BinaryOp {
    @Override
    public String type() {
        return "Sub";
    }

    @Override
    public boolean passesGradient(int i) {
        return i == 0 && pair.a().equals(pair.y());
    }

    @Override
    public double value(double a, double b) {
        return a - b;
    }

    @Override
    public double gradientA(double g, double a, double b) {
        return g;
    }

    @Override
    public double gradientB(double g, double a, double b) {
        return -g;
    }

    @Override
    public void value(float[] a, float[] b, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = a[i] - b[i];
        }
    }

    @Override
    public void gradientA(float[] g, float[] a, float[] b, float[] da, int n) {
        System.arraycopy(g, 0, da, 0, n);
    }

    @Override
    public void gradientB(float[] g, float[] a, float[] b, float[] db, int n) {
        for (int i = 0; i < n; i++) {
            db[i] = -g[i];
        }
    }

    @Override
    public boolean reads(int gradient, int input) {
        return false;
    }
}
