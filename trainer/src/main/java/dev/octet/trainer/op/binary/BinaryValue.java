package dev.octet.trainer.op.binary;

import java.util.function.DoubleBinaryOperator;

/**
 * {@code y = f(a, b)}: once in doubles, which is law, once over tiles for processors, and once as text for GPUs.
 *
 * @param cuda an expression in CUDA C++ of {@code a} and {@code b}, both of type {@code R}: float or double
 */
record BinaryValue(DoubleBinaryOperator formula, Tile tile, String cuda) {
    /** A test of two numbers. */
    interface Test {
        boolean test(double a, double b);
    }

    /** f over the first {@code n} elements, in a loop simple enough that the compiler makes vectors of it; {@code y} may be {@code a}. */
    interface PlainTile {
        void run(float[] a, float[] b, float[] y, int n);
    }

    /** As {@link PlainTile}, with b where it is one constant, otherwise NaN. */
    interface Tile {
        void run(float[] a, float[] b, float[] y, int n, double constant);
    }

    /** A function of numbers. */
    static BinaryValue formula(DoubleBinaryOperator formula, String cuda, PlainTile tile) {
        return new BinaryValue(formula, (a, b, y, n, constant) -> tile.run(a, b, y, n), cuda);
    }

    /** A function that is computed in another way where b is one constant. */
    static BinaryValue withConstant(DoubleBinaryOperator formula, String cuda, Tile tile) {
        return new BinaryValue(formula, tile, cuda);
    }

    /** A test, whose result is a truth value. */
    static BinaryValue predicate(Test test, String cuda) {
        return formula((a, b) -> test.test(a, b) ? 1 : 0, cuda + " ? (R)1 : (R)0", (a, b, y, n) -> {
            for (int i = 0; i < n; i++) {
                y[i] = test.test(a[i], b[i]) ? 1 : 0;
            }
        });
    }
}
