package dev.octet.trainer.op.binary;

/** {@code y = a / b}; integers are divided towards zero. db = -g·(a / b) / b: as torch, in the order that does not overflow with b². */
public record Div(Pair pair) implements BinaryOp {
    @Override
    public String type() {
        return "Div";
    }

    @Override
    public double value(double a, double b) {
        double quotient = a / b;
        if (pair.y().dtype().isFloat()) {
            return quotient;
        }
        return quotient < 0 ? Math.ceil(quotient) : Math.floor(quotient);
    }

    @Override
    public double gradientA(double g, double a, double b) {
        return g / b;
    }

    @Override
    public double gradientB(double g, double a, double b) {
        return -g * ((a / b) / b);
    }

    @Override
    public void value(float[] a, float[] b, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = a[i] / b[i];
        }
    }

    @Override
    public void gradientA(float[] g, float[] a, float[] b, float[] da, int n) {
        for (int i = 0; i < n; i++) {
            da[i] = g[i] / b[i];
        }
    }

    @Override
    public void gradientB(float[] g, float[] a, float[] b, float[] db, int n) {
        for (int i = 0; i < n; i++) {
            db[i] = -g[i] * ((a[i] / b[i]) / b[i]);
        }
    }

    @Override
    public boolean reads(int gradient, int input) {
        return gradient == 1 || input == 1;
    }
}
