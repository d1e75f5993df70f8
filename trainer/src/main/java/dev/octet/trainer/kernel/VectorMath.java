package dev.octet.trainer.kernel;

import dev.octet.quant.number.VectorUnit;

/**
 * Elementary functions, sums and products over runs of floats, on the vectors of the processor where the module {@code
 * jdk.incubator.vector} is there and products are added with one rounding, else one by one with the same formulas: a result does not depend on where in a run an element stands,
 * nor on the width of vectors. (Sums do: their order is that of the vectors.)
 *
 * <p>Largest errors in units in the last place of F32, over a sweep of all ranges ({@code VectorMathTest}): exp 1, log 1, tanh 2, erf 1.1,
 * sigmoid 2.1, softplus 2.4. Infinities and NaN go where {@link Math} sends them; results below the smallest normal float are within one step
 * of the subnormal ones, sigmoid's are 0.
 *
 * <p>Target and source may be the same array at the same place.
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

    /** {@code y = e^(x - shift)}; returns their sum. What softmax is made of. */
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
     * {@code y = mask <= 0 ? b : a} of the first {@code n} elements; a NaN takes a. (The compiler makes no vectors of a loop that
     * chooses between floats.)
     */
    public static void select(float[] mask, float[] a, float[] b, float[] y, int n) {
        RUNS.select(mask, a, b, y, n);
    }

    /**
     * {@code to += from}, {@code n} elements. (The compiler makes no vectors of such a loop when it cannot tell that two runs of
     * different starts do not overlap.)
     */
    public static void add(float[] from, int first, float[] to, int at, int n) {
        RUNS.add(from, first, to, at, n);
    }

    /** The sum of {@code n} elements. */
    public static float sum(float[] x, int from, int n) {
        return RUNS.sum(x, from, n);
    }

    /** The largest of {@code n} elements; -infinity of none, NaN when one is NaN. */
    public static float max(float[] x, int from, int n) {
        return RUNS.max(x, from, n);
    }

    /** The sum of the products of {@code n} pairs. */
    public static float dot(float[] a, int fromA, float[] b, int fromB, int n) {
        return RUNS.dot(a, fromA, b, fromB, n);
    }
}
