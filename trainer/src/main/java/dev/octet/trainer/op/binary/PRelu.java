package dev.octet.trainer.op.binary;

/** {@code y = a} where a is positive, else {@code b·a}; b, the slope, is repeated to the shape of a. At 0 the slope counts, as in torch. */
public record PRelu(Pair pair) implements BinaryOp {
    @Override
    public String type() {
        return "PRelu";
    }

    @Override
    public double value(double a, double b) {
        return a > 0 ? a : b * a;
    }

    @Override
    public double gradientA(double g, double a, double b) {
        return a > 0 ? g : g * b;
    }

    @Override
    public double gradientB(double g, double a, double b) {
        return a > 0 ? 0 : g * a;
    }

    @Override
    public void value(float[] a, float[] b, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = a[i] > 0 ? a[i] : b[i] * a[i];
        }
    }

    @Override
    public void gradientA(float[] g, float[] a, float[] b, float[] da, int n) {
        for (int i = 0; i < n; i++) {
            da[i] = a[i] > 0 ? g[i] : g[i] * b[i];
        }
    }

    @Override
    public void gradientB(float[] g, float[] a, float[] b, float[] db, int n) {
        for (int i = 0; i < n; i++) {
            db[i] = a[i] > 0 ? 0 : g[i] * a[i];
        }
    }

    @Override
    public boolean reads(int gradient, int input) {
        return gradient == 1 ? input == 0 : true;
    }
}
