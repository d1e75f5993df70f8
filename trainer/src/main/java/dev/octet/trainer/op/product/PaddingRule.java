package dev.octet.trainer.op.product;

import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;

/**
 * Which products are computed on copies with longer rows.
 *
 * <p>Products of two-byte elements whose rows in memory are not multiples of 16 bytes, in length or in distance, run on kernels without wide loads: on an
 * H100 at 14 to 19 % of the limit (32768 x 50257 x 768: 24 ms), otherwise at 60 % and more. So unaligned costs 1/120 - 1/600 picoseconds a
 * FLOP, 6.7 fs. A copy moves 2.8 TB/s, 0.36 ps a byte: it pays from 53 FLOPs for each byte moved, on an A100 (60 and 250 TFLOP/s, 1.6 TB/s)
 * from 49. The rule asks for about twice as many, and for 13 microseconds to gain, a few launches.
 *
 * <p>F32 stays as it is: its products read four bytes at a time at full speed, unless TF32 is allowed, which is off by default.
 *
 * @param leastFlops of a product
 * @param flopsPerByte FLOPs for each byte that copies read or write
 */
public record PaddingRule(long leastFlops, long flopsPerByte) {
    /** Pads products that gain by it, by the arithmetic above. */
    public static final PaddingRule STANDARD = new PaddingRule(2_000_000_000L, 100);

    /** Pads whatever is not aligned. */
    public static final PaddingRule ALWAYS = new PaddingRule(0, 0);

    /** Pads nothing. */
    public static final PaddingRule NEVER = new PaddingRule(Long.MAX_VALUE, 0);

    /** Elements of two bytes in 16. */
    private static final int MULTIPLE = CudaProduct.ALIGNMENT / 2;

    /** Longer rows are beyond the grids of the copies. */
    private static final int LONGEST = 1 << 24;

    /** Lengths that a product is computed with: its own where it is not padded, otherwise all that rows in memory consist of are multiples. */
    CudaLengths lengths(CudaProduct p) {
        CudaLengths own = CudaLengths.of(p);
        return pays(p) ? padded(p, own) : own;
    }

    private static CudaLengths padded(CudaProduct p, CudaLengths own) {
        return new CudaLengths(
                p.transposeA() ? up(own.m()) : own.m(),
                up(own.n()),
                !p.transposeA() || p.transposeB() ? up(own.k()) : own.k());
    }

    /** Whether a product runs faster on copies, made of all matrices that are not as they should be. */
    boolean pays(CudaProduct p) {
        boolean narrow = p.a().type().bits() == 16 && p.b().type() == p.a().type();
        boolean lengths = p.m() > 0 && p.n() > 0 && p.k() > 0 && Math.max(p.m(), Math.max(p.n(), p.k())) <= LONGEST;
        // the library adds bias and what is there before it rounds, and a copy has room for one of them
        if (!narrow || !lengths || (p.bias() != 0 && p.accumulate())) {
            return false;
        }
        CudaLengths own = CudaLengths.of(p);
        CudaLengths to = padded(p, own);
        long bytes = moved(p.a(), own.a(p), to.a(p), p.batch(), 2 * Short.BYTES)
                + moved(p.b(), own.b(p), to.b(p), p.batch(), 2 * Short.BYTES)
                + moved(
                        p.d(),
                        own.d(),
                        to.d(),
                        p.batch(),
                        2 * (p.accumulate() ? Float.BYTES : p.d().type().bits() / 8));
        double flops = 2.0 * p.m() * p.n() * p.k() * p.batch();
        return bytes > 0 && pays(flops, bytes);
    }

    /**
     * Whether so many FLOPs are worth copies.
     *
     * @param bytes that they read and write
     */
    boolean pays(double flops, long bytes) {
        return flops >= leastFlops && flops >= (double) flopsPerByte * bytes;
    }

    private static long moved(Matrix matrix, CudaLengths.Sides own, CudaLengths.Sides to, int batch, int each) {
        boolean copied = !matrix.isAligned() || !own.equals(to);
        return copied ? (long) to.rows() * to.columns() * each * (matrix.stride() == 0 ? 1 : batch) : 0;
    }

    private static int up(int length) {
        return Math.ceilDiv(length, MULTIPLE) * MULTIPLE;
    }
}
