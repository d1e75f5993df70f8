package dev.octet.converter.compare;

/**
 * Cuts a pair of weights into tiles: ranges of elements that both sides can read. The cut depends only on shapes and layouts, so sums over
 * tiles in order do not depend on the number of threads.
 */
final class Tiles {
    /** Elements of a tile, unless a row or a block is longer. */
    static final long TILE_ELEMENTS = 1 << 20;

    /** Elements of a tile of a transposed weight: each tile reads the whole other matrix, so there should be few tiles. */
    private static final long TRANSPOSED_TILE_ELEMENTS = 1 << 21;

    private final long count;
    private final long step;
    private final long matrix;
    private final long perMatrix;

    private Tiles(long count, long step, long matrix) {
        this.count = count;
        this.step = step;
        this.matrix = matrix;
        this.perMatrix = Math.ceilDiv(matrix, step);
    }

    /** The tiles of two sides with the same number of elements. */
    static Tiles of(Elements a, Elements b) {
        boolean transposed = a instanceof TransposedElements || b instanceof TransposedElements;
        return of(a, b, transposed ? TRANSPOSED_TILE_ELEMENTS : TILE_ELEMENTS);
    }

    static Tiles of(Elements a, Elements b, long tileElements) {
        long count = a.count();
        int alignment = lcm(a.rowAlignment(), b.rowAlignment());
        if (alignment == 0 || count == 0) {
            return new Tiles(count, tileElements, Math.max(1, count));
        }
        // the side with row alignment determines the row length; if both have it, they agree
        Elements byRows = a.rowAlignment() == 0 ? b : a;
        long cols = byRows.cols();
        long rows = byRows.rowsOfMatrix();
        long matrix = rows * cols;
        if (matrix <= tileElements) {
            long whole = Math.max(1, tileElements / matrix);
            return new Tiles(count, whole * matrix, count);
        }
        long step = Math.ceilDiv(Math.max(1, tileElements / cols), (long) alignment) * alignment;
        if (alignment < 128 && step > 128) {
            step = step / 128 * 128; // whole pages, and whole blocks of most layouts
            step = Math.max(alignment, step / alignment * alignment);
        }
        return new Tiles(count, Math.min(step, rows) * cols, matrix);
    }

    private static int lcm(int a, int b) {
        if (a == 0 || b == 0) {
            return Math.max(a, b);
        }
        int x = a;
        int y = b;
        while (y != 0) {
            int rest = x % y;
            x = y;
            y = rest;
        }
        return Math.multiplyExact(a / x, b);
    }

    /** Rows of a chunk of about {@code elements} elements: a multiple of the alignment, at least the alignment. */
    static long rowsPerChunk(Elements side, long elements) {
        long alignment = Math.max(1, side.rowAlignment());
        return Math.max(1, elements / Math.max(1, side.cols()) / alignment) * alignment;
    }

    /** Number of tiles; a weight without elements has one empty tile. */
    int size() {
        return count == 0 ? 1 : Math.toIntExact(Math.ceilDiv(count, matrix) * perMatrix);
    }

    /** First element of tile {@code i}. */
    long from(int i) {
        return Math.min(count, i / perMatrix * matrix + i % perMatrix * step);
    }

    /** The element after the last of tile {@code i}. */
    long to(int i) {
        long endOfMatrix = (i / perMatrix + 1) * matrix;
        return Math.min(count, Math.min(endOfMatrix, from(i) + step));
    }

    /** Elements of the largest tile. */
    long largest() {
        return Math.min(count, step);
    }
}
