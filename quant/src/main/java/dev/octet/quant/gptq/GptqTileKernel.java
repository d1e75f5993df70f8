package dev.octet.quant.gptq;

import dev.octet.quant.number.VectorUnit;

/**
 * The one inner loop of this package: a 16 x 16 tile of sums of products, in double precision.
 *
 * <p>{@code out[i][j] = fma(a[t][i], b[t][j], out[i][j])} for {@code t = 0, 1, .. steps - 1}, where {@code a} and {@code b} have rows of 16
 * elements. Every element of the tile is a separate chain of additions in the order of {@code t}, so the bits depend neither on the
 * vector width nor on the split of the steps into calls.
 */
sealed interface GptqTileKernel permits GptqTileReference, GptqTileVector {
    /** Rows and columns of a tile: a multiple of the lanes of every vector unit, but small enough that padding costs little. */
    int TILE = 16;

    /** Elements of a tile. */
    int TILE_ELEMENTS = TILE * TILE;

    /** The fastest twin that this JVM can run. */
    static GptqTileKernel best() {
        return Best.INSTANCE;
    }

    /**
     * Adds up products.
     *
     * @param a {@code steps} rows of 16, from {@code aFrom} on
     * @param b {@code steps} rows of 16, from {@code bFrom} on
     * @param out a tile of 16 x 16 from {@code outFrom} on, read and written; must not be {@code a} or {@code b}
     */
    void accumulate(double[] a, int aFrom, double[] b, int bFrom, int steps, double[] out, int outFrom);

    /** Chooses the twin at first use; without an FMA instruction, the vector twin would compute with decimal numbers. */
    final class Best {
        static final GptqTileKernel INSTANCE = VectorUnit.pays() ? new GptqTileVector() : new GptqTileReference();

        private Best() {}
    }
}
