package dev.octet.trainer.op.binary;

/**
 * The share of {@code g = dL/dy} that goes to one operand, in the forms of {@link BinaryValue}.
 *
 * @param readsA whether it is computed from the value of a
 * @param readsB whether it is computed from the value of b
 * @param cuda an expression in CUDA C++ of {@code g}, {@code a}, {@code b} and {@code constant} (b where it is one constant, otherwise NaN),
 *     all float; empty when no gradient flows
 */
record BinaryGradient(boolean readsA, boolean readsB, Formula formula, Tile tile, String cuda) {
    /** No gradient flows. */
    static final BinaryGradient NONE =
            new BinaryGradient(false, false, (g, a, b) -> Double.NaN, (g, a, b, d, n, constant) -> {}, "");

    /** g itself. */
    static final BinaryGradient PASSED =
            ofNeither((g, a, b) -> g, "g", (g, a, b, d, n) -> System.arraycopy(g, 0, d, 0, n));

    /** The share of one element. */
    interface Formula {
        double of(double g, double a, double b);
    }

    /** The shares of the first {@code n} elements; {@code a} and {@code b} hold anything where they are not read. */
    interface PlainTile {
        void run(float[] g, float[] a, float[] b, float[] d, int n);
    }

    /** As {@link PlainTile}, with b where it is one constant, otherwise NaN. */
    interface Tile {
        void run(float[] g, float[] a, float[] b, float[] d, int n, double constant);
    }

    static BinaryGradient ofNeither(Formula formula, String cuda, PlainTile tile) {
        return new BinaryGradient(false, false, formula, plain(tile), cuda);
    }

    static BinaryGradient ofA(Formula formula, String cuda, PlainTile tile) {
        return new BinaryGradient(true, false, formula, plain(tile), cuda);
    }

    static BinaryGradient ofB(Formula formula, String cuda, PlainTile tile) {
        return new BinaryGradient(false, true, formula, plain(tile), cuda);
    }

    static BinaryGradient ofBoth(Formula formula, String cuda, PlainTile tile) {
        return new BinaryGradient(true, true, formula, plain(tile), cuda);
    }

    /** From both, computed in another way where b is one constant. */
    static BinaryGradient withConstant(Formula formula, String cuda, Tile tile) {
        return new BinaryGradient(true, true, formula, tile, cuda);
    }

    private static Tile plain(PlainTile tile) {
        return (g, a, b, d, n, constant) -> tile.run(g, a, b, d, n);
    }

    /** Whether a gradient flows. */
    boolean exists() {
        return !cuda.isEmpty();
    }
}
