package dev.octet.trainer.op.unary;

import java.util.function.DoubleBinaryOperator;

/**
 * {@code dL/dx = g f'(x)} for {@code g = dL/dy}, from x or from y, in the forms of {@link UnaryValue}.
 *
 * @param saved what it is computed from: v below
 * @param cuda an expression in CUDA C++ of {@code g}, {@code x} or {@code y} (whichever is saved), {@code a} and {@code b}, all float; empty
 *     when no gradient flows
 */
record UnaryGradient(SavedForBackward saved, Formula formula, Tile tile, String cuda) {
    /** No gradient flows: the derivative is 0 wherever there is one. */
    static final UnaryGradient NONE = of(SavedForBackward.NOTHING, (g, v) -> 0, "");

    /** dL/dx. */
    interface Formula {
        double of(double g, double v, double a, double b);
    }

    /** dL/dx over the first {@code n} elements, in one loop of its own; {@code dx} is an array of its own. */
    interface Tile {
        void run(float[] g, float[] v, float[] dx, int n, float a, float b);
    }

    /** As {@link Tile}, without attributes. */
    interface PlainTile {
        void run(float[] g, float[] v, float[] dx, int n);
    }

    /** From x, with attributes. */
    static UnaryGradient ofInput(Formula formula, String cuda, Tile tile) {
        return new UnaryGradient(SavedForBackward.INPUT, formula, tile, cuda);
    }

    /** From x. */
    static UnaryGradient ofInput(DoubleBinaryOperator formula, String cuda, PlainTile tile) {
        return of(SavedForBackward.INPUT, formula, cuda, tile);
    }

    /** From x, where the formula takes much longer than a call. */
    static UnaryGradient ofInput(DoubleBinaryOperator formula, String cuda) {
        return of(SavedForBackward.INPUT, formula, cuda);
    }

    /** From y. */
    static UnaryGradient ofOutput(DoubleBinaryOperator formula, String cuda, PlainTile tile) {
        return of(SavedForBackward.OUTPUT, formula, cuda, tile);
    }

    /** From g alone: the derivative is the same everywhere. */
    static UnaryGradient constant(DoubleBinaryOperator formula, String cuda, PlainTile tile) {
        return of(SavedForBackward.NOTHING, formula, cuda, tile);
    }

    private static UnaryGradient of(SavedForBackward saved, DoubleBinaryOperator formula, String cuda) {
        return of(saved, formula, cuda, (g, v, dx, n) -> {
            for (int i = 0; i < n; i++) {
                dx[i] = (float) formula.applyAsDouble(g[i], v[i]);
            }
        });
    }

    private static UnaryGradient of(SavedForBackward saved, DoubleBinaryOperator formula, String cuda, PlainTile tile) {
        return new UnaryGradient(
                saved, (g, v, a, b) -> formula.applyAsDouble(g, v), (g, v, dx, n, a, b) -> tile.run(g, v, dx, n), cuda);
    }

    /** Whether a gradient flows. */
    boolean exists() {
        return !cuda.isEmpty();
    }

    /** Name of what is saved in {@link #cuda}. */
    String cudaName() {
        return saved == SavedForBackward.OUTPUT ? "y" : "x";
    }
}
