package dev.octet.trainer.gemm;

import dev.octet.trainer.kernel.MatrixProducts.Call;

/**
 * How a product is cut into pieces for threads: along one side of the result, by the size of the problem alone. Measured: a piece
 * that has all rows, or all columns, costs little more than its share, since only one operand is packed again.
 *
 * @param alongRows whether pieces are groups of rows; else groups of columns
 * @param size rows or columns of a piece; the last one may have fewer
 */
record Cuts(boolean alongRows, int size, int count) {
    /** Multiplications and additions that a piece is worth, about a tenth of a millisecond. */
    private static final double WORK = 12e6;

    /** A side is cut in multiples of this: registers hold up to 48 rows or columns. */
    private static final int UNIT = 48;

    /** Below this width, packing the other operand again shows. */
    private static final int LEAST = 192;

    /** Enough for the threads of a socket. */
    private static final int MOST = 32;

    static Cuts of(Call call) {
        double pieces = Math.min(MOST, 2.0 * call.m() * call.n() * call.k() / WORK);
        // with B transposed its packing is the dear part: then rather a part of B than all of it for each piece
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
