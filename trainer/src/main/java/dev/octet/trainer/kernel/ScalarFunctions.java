package dev.octet.trainer.kernel;

import static dev.octet.trainer.kernel.FunctionConstants.*;

import dev.octet.quant.number.FusedMultiplyAdd;

/**
 * Scalar implementation, and the reference for {@link VectorFunctions}, which gives the same bits except for sums, whose order differs.
 * Sums use double precision: a single chain of float additions would lose what the many short chains of a vector keep.
 */
final class ScalarFunctions implements ElementaryFunctions {
    /** e^x = 2^k·e^r, |r| <= ln(2)/2; 2^k is split into two factors, so that neither over- nor underflows before the product does. */
    static float exp(float x) {
        float bounded = x > EXP_HIGHEST ? EXP_HIGHEST : x < EXP_LOWEST ? EXP_LOWEST : x;
        float shifted = FusedMultiplyAdd.of(bounded, LOG2_E, ROUNDER);
        int k = Float.floatToRawIntBits(shifted) - ROUNDER_BITS;
        float n = shifted - ROUNDER;
        float r = FusedMultiplyAdd.of(n, -LN2_LOW, FusedMultiplyAdd.of(n, -LN2_HIGH, bounded));
        float p = FusedMultiplyAdd.of(
                FusedMultiplyAdd.of(FusedMultiplyAdd.of(FusedMultiplyAdd.of(EXP_4, r, EXP_3), r, EXP_2), r, EXP_1),
                r,
                EXP_0);
        p = FusedMultiplyAdd.of(p, r * r, r) + 1;
        int half = k >> 1;
        return p * powerOfTwo(half) * powerOfTwo(k - half);
    }

    private static float powerOfTwo(int exponent) {
        return Float.intBitsToFloat((exponent + 127) << 23);
    }

    /** log x = e·ln 2 + log m, sqrt(1/2) <= m < sqrt(2). */
    static float log(float x) {
        boolean subnormal = x < SMALLEST_NORMAL;
        int bits = Float.floatToRawIntBits(subnormal ? x * TWO_23 : x);
        int exponent = (bits - SQRT_HALF_BITS) >> 23;
        float f = Float.intBitsToFloat(bits - (exponent << 23)) - 1;
        float e = exponent - (subnormal ? 23f : 0f);
        float p = FusedMultiplyAdd.of(FusedMultiplyAdd.of(FusedMultiplyAdd.of(LOG_7, f, LOG_6), f, LOG_5), f, LOG_4);
        p = FusedMultiplyAdd.of(
                FusedMultiplyAdd.of(FusedMultiplyAdd.of(FusedMultiplyAdd.of(p, f, LOG_3), f, LOG_2), f, LOG_1),
                f,
                LOG_0);
        float z = f * f;
        float y = FusedMultiplyAdd.of(e, LN2_LOW, f * z * p);
        y = FusedMultiplyAdd.of(-0.5f, z, y);
        y = FusedMultiplyAdd.of(e, LN2_HIGH, f + y);
        return x > 0 ? (x < Float.POSITIVE_INFINITY ? y : x) : x == 0 ? Float.NEGATIVE_INFINITY : Float.NaN;
    }

    static float tanh(float x) {
        float s = x * x;
        float p = FusedMultiplyAdd.of(
                FusedMultiplyAdd.of(FusedMultiplyAdd.of(FusedMultiplyAdd.of(TANH_4, s, TANH_3), s, TANH_2), s, TANH_1),
                s,
                TANH_0);
        float small = FusedMultiplyAdd.of(p * s, x, x);
        float a = Math.abs(x);
        float large = Math.copySign(1 - 2 / (exp(2 * a) + 1), x);
        return a < TANH_SMALL ? small : large;
    }

    static float erf(float x) {
        float s = x * x;
        float p = FusedMultiplyAdd.of(FusedMultiplyAdd.of(FusedMultiplyAdd.of(ERF_6, s, ERF_5), s, ERF_4), s, ERF_3);
        p = FusedMultiplyAdd.of(FusedMultiplyAdd.of(FusedMultiplyAdd.of(p, s, ERF_2), s, ERF_1), s, ERF_0);
        float small = FusedMultiplyAdd.of(p, x, x);
        float a = Math.abs(x);
        float t = a > ERF_ONE ? ERF_ONE : a;
        float q =
                FusedMultiplyAdd.of(FusedMultiplyAdd.of(FusedMultiplyAdd.of(ERFC_6, t, ERFC_5), t, ERFC_4), t, ERFC_3);
        q = FusedMultiplyAdd.of(FusedMultiplyAdd.of(FusedMultiplyAdd.of(q, t, ERFC_2), t, ERFC_1), t, ERFC_0);
        float large = Math.copySign(1 - exp(-(q + t)), x);
        return a < ERF_SMALL ? small : large;
    }

    static float sigmoid(float x) {
        return 1 / (1 + exp(-x));
    }

    /** max(x, 0) + log(1 + u) with u = e^-|x|. */
    static float softplus(float x) {
        float u = exp(-Math.abs(x));
        float s = u / (2 + u);
        float z = s * s;
        float p = FusedMultiplyAdd.of(
                FusedMultiplyAdd.of(
                        FusedMultiplyAdd.of(FusedMultiplyAdd.of(LOG1P_4, z, LOG1P_3), z, LOG1P_2), z, LOG1P_1),
                z,
                LOG1P_0);
        return (x > 0 ? x : 0) + FusedMultiplyAdd.of(s * z, p, 2 * s);
    }

    @Override
    public void exp(float[] x, int from, float[] y, int to, int n) {
        for (int i = 0; i < n; i++) {
            y[to + i] = exp(x[from + i]);
        }
    }

    @Override
    public float expOfDifference(float[] x, int from, float shift, float[] y, int to, int n) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            y[to + i] = exp(x[from + i] - shift);
            sum += y[to + i];
        }
        return (float) sum;
    }

    @Override
    public void log(float[] x, int from, float[] y, int to, int n) {
        for (int i = 0; i < n; i++) {
            y[to + i] = log(x[from + i]);
        }
    }

    @Override
    public void tanh(float[] x, int from, float[] y, int to, int n) {
        for (int i = 0; i < n; i++) {
            y[to + i] = tanh(x[from + i]);
        }
    }

    @Override
    public void erf(float[] x, int from, float[] y, int to, int n) {
        for (int i = 0; i < n; i++) {
            y[to + i] = erf(x[from + i]);
        }
    }

    @Override
    public void sigmoid(float[] x, int from, float[] y, int to, int n) {
        for (int i = 0; i < n; i++) {
            y[to + i] = sigmoid(x[from + i]);
        }
    }

    @Override
    public void softplus(float[] x, int from, float[] y, int to, int n) {
        for (int i = 0; i < n; i++) {
            y[to + i] = softplus(x[from + i]);
        }
    }

    @Override
    public void select(float[] mask, float[] a, float[] b, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = mask[i] <= 0 ? b[i] : a[i];
        }
    }

    @Override
    public void add(float[] from, int first, float[] to, int at, int n) {
        for (int i = 0; i < n; i++) {
            to[at + i] += from[first + i];
        }
    }

    @Override
    public float sum(float[] x, int from, int n) {
        double sum = 0;
        for (int i = from; i < from + n; i++) {
            sum += x[i];
        }
        return (float) sum;
    }

    @Override
    public float max(float[] x, int from, int n) {
        float max = Float.NEGATIVE_INFINITY;
        for (int i = from; i < from + n; i++) {
            max = Math.max(max, x[i]);
        }
        return max;
    }

    @Override
    public float dot(float[] a, int fromA, float[] b, int fromB, int n) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            sum += (double) a[fromA + i] * b[fromB + i];
        }
        return (float) sum;
    }
}
