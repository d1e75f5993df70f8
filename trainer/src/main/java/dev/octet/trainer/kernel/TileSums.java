package dev.octet.trainer.kernel;

/**
 * Sums over tiles of F32, in an order that depends on nothing but the length: eight partial sums, element {@code i} goes to sum
 * {@code i mod 8}. Eight chains of additions keep a core busy without vectors, and the same bits come out on every machine.
 */
public final class TileSums {
    private static final int CHAINS = 8;

    private TileSums() {}

    /** {@code x[0] + .. + x[n - 1]}. */
    public static float sum(float[] x, int n) {
        float a = 0;
        float b = 0;
        float c = 0;
        float d = 0;
        float e = 0;
        float f = 0;
        float g = 0;
        float h = 0;
        int whole = n - n % CHAINS;
        for (int i = 0; i < whole; i += CHAINS) {
            a += x[i];
            b += x[i + 1];
            c += x[i + 2];
            d += x[i + 3];
            e += x[i + 4];
            f += x[i + 5];
            g += x[i + 6];
            h += x[i + 7];
        }
        float rest = 0;
        for (int i = whole; i < n; i++) {
            rest += x[i];
        }
        return ((a + b) + (c + d)) + ((e + f) + (g + h)) + rest;
    }

    /** {@code x[0] y[0] + .. + x[n - 1] y[n - 1]}. */
    public static float dot(float[] x, float[] y, int n) {
        float a = 0;
        float b = 0;
        float c = 0;
        float d = 0;
        float e = 0;
        float f = 0;
        float g = 0;
        float h = 0;
        int whole = n - n % CHAINS;
        for (int i = 0; i < whole; i += CHAINS) {
            a += x[i] * y[i];
            b += x[i + 1] * y[i + 1];
            c += x[i + 2] * y[i + 2];
            d += x[i + 3] * y[i + 3];
            e += x[i + 4] * y[i + 4];
            f += x[i + 5] * y[i + 5];
            g += x[i + 6] * y[i + 6];
            h += x[i + 7] * y[i + 7];
        }
        float rest = 0;
        for (int i = whole; i < n; i++) {
            rest += x[i] * y[i];
        }
        return ((a + b) + (c + d)) + ((e + f) + (g + h)) + rest;
    }

    /** The largest of {@code x[0] .. x[n - 1]}, NaN left out; negative infinity when there is none. */
    public static float max(float[] x, int n) {
        float a = Float.NEGATIVE_INFINITY;
        float b = a;
        float c = a;
        float d = a;
        int whole = n - n % 4;
        for (int i = 0; i < whole; i += 4) {
            a = x[i] > a ? x[i] : a;
            b = x[i + 1] > b ? x[i + 1] : b;
            c = x[i + 2] > c ? x[i + 2] : c;
            d = x[i + 3] > d ? x[i + 3] : d;
        }
        for (int i = whole; i < n; i++) {
            a = x[i] > a ? x[i] : a;
        }
        return Math.max(Math.max(a, b), Math.max(c, d));
    }
}
