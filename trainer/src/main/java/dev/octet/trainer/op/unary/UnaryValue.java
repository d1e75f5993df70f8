package dev.octet.trainer.op.unary;

import java.util.function.DoublePredicate;
import java.util.function.DoubleUnaryOperator;

/**
 * {@code y = f(x)}, where a and b are the attributes of the operator: once in doubles, which is law, once over tiles for processors, and once
 * as text for GPUs.
 *
 * @param cuda an expression in CUDA C++ of {@code x}, {@code a} and {@code b}, all of type {@code R}: float or double
 * @param isTruth whether y is a truth value (BOOL)
 */
record UnaryValue(Formula formula, Tile tile, String cuda, boolean isTruth) {
    /** f(x). */
    interface Formula {
        double of(double x, double a, double b);
    }

    /** f over the first {@code n} elements, in one loop of its own; {@code y} may be {@code x}. */
    interface Tile {
        void run(float[] x, float[] y, int n, float a, float b);
    }

    /** As {@link Tile}, without attributes. */
    interface PlainTile {
        void run(float[] x, float[] y, int n);
    }

    /** A function with attributes. */
    static UnaryValue formula(Formula formula, String cuda, Tile tile) {
        return new UnaryValue(formula, tile, cuda, false);
    }

    /** A function without attributes. */
    static UnaryValue formula(DoubleUnaryOperator formula, String cuda, PlainTile tile) {
        return formula((x, a, b) -> formula.applyAsDouble(x), cuda, (x, y, n, a, b) -> tile.run(x, y, n));
    }

    /** A function without attributes that takes much longer than a call: tiles are computed one by one from the formula. */
    static UnaryValue formula(DoubleUnaryOperator formula, String cuda) {
        return formula(formula, cuda, (x, y, n) -> {
            for (int i = 0; i < n; i++) {
                y[i] = (float) formula.applyAsDouble(x[i]);
            }
        });
    }

    /** A test, whose result is a truth value. */
    static UnaryValue predicate(DoublePredicate test, String cuda) {
        UnaryValue value = formula(x -> test.test(x) ? 1 : 0, cuda + " ? (R)1 : (R)0");
        return new UnaryValue(value.formula, value.tile, value.cuda, true);
    }
}
