package dev.octet.trainer.gemm;

import dev.octet.trainer.kernel.MatrixProducts.Call;

/**
 * How to cut a product into pieces for threads: along one side of the result, chosen by the problem size alone. Measured: a piece with all
 * rows, or all columns, costs little more than its share, since only one operand is packed repeatedly.
 *
 * @param alongRows whether pieces are groups of rows; otherwise groups of columns
 * @param size rows or columns per piece; the last piece may have fewer
 */
record Cuts(boolean alongRows, int size, int count) {
    /** Minimum multiply-adds per piece, about a tenth of a millisecond. */
    private static final double WORK = 12e6;

    /** Granularity of cuts: registers hold up to 48 rows or columns. */
    private static final int UNIT = 48;

    /** Minimum width of a piece; below it, packing the other operand again costs noticeable time. */
    private static final int LEAST = 192;

    /** Maximum number of pieces: enough for the threads of a socket. */
    private static final int MOST = 32;

    static Cuts of(Call call) {
        double pieces = Math.min(MOST, 2.0 * call.m() * call.n() * call.k() / WORK);
        // packing a transposed B is expensive: prefer pieces that pack a part of B each to pieces that pack all of B
        boolean rows = call.transposeB() ? call.m() > 4L * call.n() : call.m() >= call.n();
        int side = rows ? call.m() : call.n();
        int size = Math.max(LEAST, (int) Math.ceil(side / Math.max(1, pieces)));
        size = Math.ceilDiv(size, UNIT) * UNIT;
        return new Cuts(rows, size, Math.ceilDiv(side, size));
    }

    int from(int piece) {
        return piece * size;
    }

    int length(int piece, Call call) {
        return Math.min(size, (alongRows ? call.m() : call.n()) - from(piece));
    }
}
