package dev.octet.trainer.op.binary;

/**
 * {@code y = a^b} and its gradients. The exponent is nearly always a constant: then no gradient flows into it, and 2, 3, 1/2 and their like are
 * computed without logarithms, so that negative bases have their gradients. da = g·b·a^(b-1), 0 for b = 0; db = g·y·log a, 0 where a = 0 and
 * b >= 0 (torch's choices); NaN for negative a.
 */
final class Power {
    private Power() {}

    /** {@code y = a^b}, or {@code a^e} where e is a number. */
    static void value(float[] a, float[] b, float[] y, int n, double e) {
        if (Double.isNaN(e)) {
            for (int i = 0; i < n; i++) {
                y[i] = (float) Math.pow(a[i], b[i]);
            }
        } else {
            constant(a, e, y, n);
        }
    }

    /** {@code y = a^e}. */
    private static void constant(float[] a, double e, float[] y, int n) {
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

    /** The share of a. */
    static double ofBase(double g, double a, double b) {
        return b == 0 ? 0 : g * b * Math.pow(a, b - 1);
    }

    /** The shares of a. */
    static void ofBase(float[] g, float[] a, float[] b, float[] da, int n, double e) {
        if (Double.isNaN(e) || e == 0) {
            for (int i = 0; i < n; i++) {
                da[i] = (float) ofBase(g[i], a[i], Double.isNaN(e) ? b[i] : e);
            }
            return;
        }
        constant(a, e - 1, da, n);
        for (int i = 0; i < n; i++) {
            da[i] *= g[i] * (float) e;
        }
    }

    /** The share of b. */
    static double ofExponent(double g, double a, double b) {
        return a == 0 && b >= 0 ? 0 : g * Math.pow(a, b) * Math.log(a);
    }

    /** The shares of b. */
    static void ofExponent(float[] g, float[] a, float[] b, float[] db, int n) {
        for (int i = 0; i < n; i++) {
            db[i] = (float) ofExponent(g[i], a[i], b[i]);
        }
    }
}
