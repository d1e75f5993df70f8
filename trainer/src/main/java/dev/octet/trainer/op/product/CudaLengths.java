package dev.octet.trainer.op.product;

import dev.octet.trainer.kernel.CudaProduct;

/** Rows and columns of a product, and the length of its sums. */
public record CudaLengths(int m, int n, int k) {
    /** Elements that rows of copies begin at multiples of: 16 bytes of two-byte elements; long rows 128, the lines of memory. */
    private static final int LEADING = 8;

    private static final int LONG_LEADING = 64;
    private static final int LONG = 1024;

    /** Rows and columns of a matrix, as it lies in memory. */
    public record Sides(int rows, int columns) {
        /** Elements from one row of a copy to the next. */
        public long leading() {
            int multiple = columns >= LONG ? LONG_LEADING : LEADING;
            return (long) Math.ceilDiv(columns, multiple) * multiple;
        }

        /** Elements of a copy. */
        public long elements() {
            return rows * leading();
        }
    }

    static CudaLengths of(CudaProduct p) {
        return new CudaLengths(p.m(), p.n(), p.k());
    }

    /** The left operand's sides. */
    public Sides a(CudaProduct p) {
        return p.transposeA() ? new Sides(k, m) : new Sides(m, k);
    }

    /** The right operand's sides. */
    public Sides b(CudaProduct p) {
        return p.transposeB() ? new Sides(n, k) : new Sides(k, n);
    }

    /** The result's sides. */
    public Sides d() {
        return new Sides(m, n);
    }
}
