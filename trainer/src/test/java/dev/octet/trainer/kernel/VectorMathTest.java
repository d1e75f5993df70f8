package dev.octet.trainer.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.function.DoubleUnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

@Tag("twins")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class VectorMathTest {
    private interface Run {
        void apply(float[] x, int from, float[] y, int to, int n);
    }

    /**
     * One function.
     *
     * @param ulps allowed error in units in the last place of the exact result; that of subnormal results is the smallest float
     */
    record Function(
            String name, Run vector, Run scalar, DoubleUnaryOperator exact, double ulps, boolean subnormalIsZero) {
        @Override
        public String toString() {
            return name;
        }
    }

    /** All signs and exponents, and enough mantissas; every special value. */
    private static final float[] SWEEP = sweep();

    private static float[] sweep() {
        int step = 4093; // prime
        float[] x = new float[(int) ((1L << 32) / step) + 8];
        int n = 0;
        for (long bits = 0; bits < 1L << 32; bits += step) {
            x[n++] = Float.intBitsToFloat((int) bits);
        }
        float[] special = {0f, -0f, Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY, Float.MIN_VALUE, -1f};
        System.arraycopy(special, 0, x, n, special.length);
        return x;
    }

    static Stream<Function> functions() {
        ScalarFunctions s = new ScalarFunctions();
        return Stream.of(
                new Function("exp", VectorMath::exp, s::exp, Math::exp, 1, false),
                new Function("log", VectorMath::log, s::log, Math::log, 1, false),
                new Function("tanh", VectorMath::tanh, s::tanh, Math::tanh, 2, false),
                new Function("erf", VectorMath::erf, s::erf, VectorMathTest::erf, 1.1, false),
                new Function("sigmoid", VectorMath::sigmoid, s::sigmoid, x -> 1 / (1 + Math.exp(-x)), 2.1, true),
                new Function("softplus", VectorMath::softplus, s::softplus, VectorMathTest::softplus, 2.4, false));
    }

    private static double softplus(double x) {
        return x > 0 ? x + Math.log1p(Math.exp(-x)) : Math.log1p(Math.exp(x));
    }

    /** 2/sqrt(pi) e^-x² (x + 2x³/3 + 4x⁵/15 + ..), whose terms have one sign (Abramowitz and Stegun, 7.1.6). */
    private static double erf(double x) {
        if (!(Math.abs(x) < 6)) {
            return Math.signum(x);
        }
        double term = x;
        double sum = x;
        for (int k = 1; Math.abs(term) > 1e-17 * Math.abs(sum); k++) {
            term *= 2 * x * x / (2 * k + 1);
            sum += term;
        }
        return 2 / Math.sqrt(Math.PI) * Math.exp(-x * x) * sum;
    }

    @ParameterizedTest
    @MethodSource("functions")
    void the_error_is_what_the_documentation_says(Function f) {
        float[] y = new float[SWEEP.length];
        f.vector.apply(SWEEP, 0, y, 0, y.length);
        double worst = 0;
        float worstAt = 0;
        for (int i = 0; i < y.length; i++) {
            double exact = f.exact.applyAsDouble(SWEEP[i]);
            float rounded = (float) exact;
            if (Float.compare(rounded, y[i]) == 0 || rounded == y[i]) {
                continue;
            }
            if (f.subnormalIsZero && exact < Float.MIN_NORMAL && y[i] == 0) {
                continue;
            }
            double error = Math.abs(y[i] - exact) / Math.ulp(rounded);
            if (!(error <= worst)) {
                worst = error;
                worstAt = SWEEP[i];
            }
        }
        assertTrue(worst <= f.ulps, f + " is " + worst + " units wrong at " + worstAt);
    }

    @ParameterizedTest
    @MethodSource("functions")
    void vectors_and_single_elements_have_the_same_bits(Function f) {
        float[] one = new float[SWEEP.length];
        float[] many = new float[SWEEP.length];
        f.vector.apply(SWEEP, 0, many, 0, many.length);
        f.scalar.apply(SWEEP, 0, one, 0, one.length);
        for (int i = 0; i < one.length; i++) {
            int at = i;
            assertEquals(Float.floatToIntBits(one[i]), Float.floatToIntBits(many[i]), () -> f + " of " + SWEEP[at]);
        }
    }

    @Test
    void softmax_terms_and_their_sum() {
        float[] x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
        float[] y = x.clone();
        float sum = VectorMath.expOfDifference(y, 0, 19, y, 0, 19);
        double expected = 0;
        for (int i = 0; i < x.length; i++) {
            expected += Math.exp(x[i] - 19);
            assertEquals(Math.exp(x[i] - 19), y[i], 1e-7);
        }
        assertEquals(expected, sum, 1e-6);
    }

    @Test
    void sums_products_and_maxima_see_every_element_of_a_run() {
        for (int n = 0; n < 70; n++) {
            float[] x = new float[80];
            Arrays.fill(x, 1000);
            for (int i = 0; i < n; i++) {
                x[5 + i] = i + 1;
            }
            assertEquals(n * (n + 1) / 2f, VectorMath.sum(x, 5, n));
            assertEquals(n == 0 ? Float.NEGATIVE_INFINITY : n, VectorMath.max(x, 5, n));
            assertEquals(n * (n + 1) * (2 * n + 1) / 6f, VectorMath.dot(x, 5, x, 5, n));
            if (n > 0) {
                x[4 + n] = Float.NaN;
                assertTrue(Float.isNaN(VectorMath.max(x, 5, n)));
            }
        }
    }
}
