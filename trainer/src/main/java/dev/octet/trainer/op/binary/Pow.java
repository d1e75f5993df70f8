package dev.octet.trainer.op.binary;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.OptionalDouble;

/**
 * {@code y = a^b}. The exponent is nearly always a constant: then no gradient flows into it, and 2, 3, 1/2 and their like are computed
 * without logarithms, so that negative bases have their gradients. da = g·b·a^(b-1), 0 for b = 0; db = g·y·log a, 0 where a = 0 and
 * b >= 0 (torch's choices); NaN for negative a.
 *
 * @param exponent of every element, when it is a constant
 */
public record Pow(Pair pair, OptionalDouble exponent) implements BinaryOp {
    /** Reads ONNX Pow; the result has the base's type. */
    public static Pow read(OpSource source) {
        OperandType a = source.input(0);
        OperandType y = new OperandType(a.dtype(), source.broadcast(2));
        return new Pow(new Pair(a, source.input(1), y), source.number(1));
    }

    @Override
    public String type() {
        return "Pow";
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == 0 || exponent.isEmpty();
    }

    @Override
    public boolean inTiles() {
        DType base = pair.a().dtype();
        return exponent.isPresent() ? base.isFloat() && base != DType.F64 : BinaryOp.super.inTiles();
    }

    @Override
    public double value(double a, double b) {
        return Math.pow(a, b);
    }

    @Override
    public double gradientA(double g, double a, double b) {
        double e = exponent.orElse(b);
        return e == 0 ? 0 : g * e * Math.pow(a, e - 1);
    }

    @Override
    public double gradientB(double g, double a, double b) {
        return a == 0 && b >= 0 ? 0 : g * Math.pow(a, b) * Math.log(a);
    }

    @Override
    public void value(float[] a, float[] b, float[] y, int n) {
        if (exponent.isPresent()) {
            power(a, exponent.getAsDouble(), y, n);
            return;
        }
        for (int i = 0; i < n; i++) {
            y[i] = (float) Math.pow(a[i], b[i]);
        }
    }

    /** {@code y = a^e}. */
    private static void power(float[] a, double e, float[] y, int n) {
        if (e == 2) {
            for (int i = 0; i < n; i++) {
                y[i] = a[i] * a[i];
            }
        } else if (e == 3) {
            for (int i = 0; i < n; i++) {
                y[i] = a[i] * a[i] * a[i];
            }
        } else if (e == 0.5) {
            for (int i = 0; i < n; i++) {
                y[i] = (float) Math.sqrt(a[i]);
            }
        } else if (e == 1) {
            System.arraycopy(a, 0, y, 0, n);
        } else if (e == -1) {
            for (int i = 0; i < n; i++) {
                y[i] = 1 / a[i];
            }
        } else if (e == -0.5) {
            for (int i = 0; i < n; i++) {
                y[i] = 1 / (float) Math.sqrt(a[i]);
            }
        } else {
            for (int i = 0; i < n; i++) {
                y[i] = (float) Math.pow(a[i], e);
            }
        }
    }

    @Override
    public void gradientA(float[] g, float[] a, float[] b, float[] da, int n) {
        if (exponent.isPresent() && exponent.getAsDouble() != 0) {
            power(a, exponent.getAsDouble() - 1, da, n);
            float e = (float) exponent.getAsDouble();
            for (int i = 0; i < n; i++) {
                da[i] *= g[i] * e;
            }
            return;
        }
        for (int i = 0; i < n; i++) {
            da[i] = (float) gradientA(g[i], a[i], b[i]);
        }
    }

    @Override
    public void gradientB(float[] g, float[] a, float[] b, float[] db, int n) {
        for (int i = 0; i < n; i++) {
            db[i] = (float) gradientB(g[i], a[i], b[i]);
        }
    }

    @Override
    public boolean reads(int gradient, int input) {
        return input == 0 || exponent.isEmpty();
    }
}
