package dev.octet.trainer.op.binary;

/** {@code y = a·b}. */
public record Mul(Pair pair) implements BinaryOp {
    @Override
    public String type() {
        return "Mul";
    }

    @Override
    public double value(double a, double b) {
        return a * b;
    }

    @Override
    public double gradientA(double g, double a, double b) {
        return g * b;
    }

    @Override
    public double gradientB(double g, double a, double b) {
        return g * a;
    }

    @Override
    public void value(float[] a, float[] b, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = a[i] * b[i];
        }
    }

    @Override
    public void gradientA(float[] g, float[] a, float[] b, float[] da, int n) {
        for (int i = 0; i < n; i++) {
            da[i] = g[i] * b[i];
        }
    }

    @Override
    public void gradientB(float[] g, float[] a, float[] b, float[] db, int n) {
        for (int i = 0; i < n; i++) {
            db[i] = g[i] * a[i];
        }
    }

    @Override
    public boolean reads(int gradient, int input) {
        return gradient != input;
    }
}
