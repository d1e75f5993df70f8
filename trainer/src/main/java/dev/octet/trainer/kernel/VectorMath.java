package dev.octet.trainer.kernel;

import dev.octet.quant.number.VectorUnit;

/**
 * Elementary functions, sums and dot products over consecutive floats. Uses vectors if the module {@code jdk.incubator.vector} is present
 * and the processor has fused multiply-add, otherwise scalar code with the same formulas. A result does not depend on the element's
 * position or on the vector width. (Sums do: they are added in vector order.)
 *
 * <p>Largest errors in F32 ulps, over a sweep of all ranges ({@code VectorMathTest}): exp 1, log 1, tanh 2, erf 1.1, sigmoid 2.1, softplus
 * 2.4. Infinities and NaN are handled as in {@link Math}. Results below the smallest normal float are accurate to one subnormal step; those
 * of sigmoid are 0.
 *
 * <p>Source and destination may be the same array at the same offset.
 */
public final class VectorMath {
    private static final ElementaryFunctions RUNS = choose();

    private VectorMath() {}

    private static ElementaryFunctions choose() {
        if (VectorUnit.pays()) {
            return new VectorFunctions();
        }
        System.getLogger(VectorMath.class.getName())
                .log(
                        System.Logger.Level.WARNING,
                        "computing without SIMD, several times slower: {0}",
                        VectorUnit.isInJvm()
                                ? "this processor has no fused multiply-add"
                                : "start java with --add-modules jdk.incubator.vector");
        return new ScalarFunctions();
    }

    /** e^x of {@code n} elements. */
    public static void exp(float[] x, int from, float[] y, int to, int n) {
        RUNS.exp(x, from, y, to, n);
    }

    /** {@code y = e^(x - shift)}; returns the sum of y. Used by softmax. */
    public static float expOfDifference(float[] x, int from, float shift, float[] y, int to, int n) {
        return RUNS.expOfDifference(x, from, shift, y, to, n);
    }

    /** Natural logarithm of {@code n} elements. */
    public static void log(float[] x, int from, float[] y, int to, int n) {
        RUNS.log(x, from, y, to, n);
    }

    /** Hyperbolic tangent of {@code n} elements. */
    public static void tanh(float[] x, int from, float[] y, int to, int n) {
        RUNS.tanh(x, from, y, to, n);
    }

    /** Error function of {@code n} elements. */
    public static void erf(float[] x, int from, float[] y, int to, int n) {
        RUNS.erf(x, from, y, to, n);
    }

    /** 1 / (1 + e^-x) of {@code n} elements. */
    public static void sigmoid(float[] x, int from, float[] y, int to, int n) {
        RUNS.sigmoid(x, from, y, to, n);
    }

    /** log(1 + e^x) of {@code n} elements. */
    public static void softplus(float[] x, int from, float[] y, int to, int n) {
        RUNS.softplus(x, from, y, to, n);
    }

    /**
     * {@code y = mask <= 0 ? b : a} for the first {@code n} elements; a NaN in the mask selects a. (The JIT compiler does not vectorise
     * loops that select between floats.)
     */
    public static void select(float[] mask, float[] a, float[] b, float[] y, int n) {
        RUNS.select(mask, a, b, y, n);
    }

    /**
     * {@code to += from}, {@code n} elements. (The JIT compiler does not vectorise this loop unless it can prove that the two ranges do not
     * overlap.)
     */
    public static void add(float[] from, int first, float[] to, int at, int n) {
        RUNS.add(from, first, to, at, n);
    }

    /** The sum of {@code n} elements. */
    public static float sum(float[] x, int from, int n) {
        return RUNS.sum(x, from, n);
    }

    /** The largest of {@code n} elements; -infinity for none, NaN when any element is NaN. */
    public static float max(float[] x, int from, int n) {
        return RUNS.max(x, from, n);
    }

    /** Dot product of {@code n} elements. */
    public static float dot(float[] a, int fromA, float[] b, int fromB, int n) {
        return RUNS.dot(a, fromA, b, fromB, n);
    }
}
