package dev.octet.trainer.op.binary;

/** The larger of two; NaN when one is NaN. The gradient goes to the larger one, half to each of equal ones, as in torch. */
public record Max(Pair pair) implements BinaryOp {
    @Override
    public String type() {
        return "Max";
    }

    @Override
    public double value(double a, double b) {
        return Math.max(a, b);
    }

    @Override
    public double gradientA(double g, double a, double b) {
        return a < b ? 0 : a == b ? g / 2 : g;
    }

    @Override
    public double gradientB(double g, double a, double b) {
        return b < a ? 0 : a == b ? g / 2 : g;
    }

    @Override
    public void value(float[] a, float[] b, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = Math.max(a[i], b[i]);
        }
    }

    @Override
    public void gradientA(float[] g, float[] a, float[] b, float[] da, int n) {
        for (int i = 0; i < n; i++) {
            da[i] = a[i] < b[i] ? 0 : a[i] == b[i] ? g[i] / 2 : g[i];
        }
    }

    @Override
    public void gradientB(float[] g, float[] a, float[] b, float[] db, int n) {
        for (int i = 0; i < n; i++) {
            db[i] = b[i] < a[i] ? 0 : a[i] == b[i] ? g[i] / 2 : g[i];
        }
    }

    @Override
    public boolean reads(int gradient, int input) {
        return true;
    }
}
