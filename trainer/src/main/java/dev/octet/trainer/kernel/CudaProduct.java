package dev.octet.trainer.kernel;

import dev.octet.formats.tensor.DType;

/**
 * {@code d = epilogue(scaleA · scaleB · op(a)·op(b) (+ bias)) (+ d)}, all row-major: op(a) is [m, k], op(b) is [k, n], d is [m, n]. Products
 * are exact, sums F32.
 *
 * <p>FP8 operands: {@code a} must not be transposed and {@code b} must be (the library's TN form). k and both leading dimensions are
 * multiples of 16; so are the bytes of a result row and all addresses. d is BF16, F16 or F32 (cuBLAS 13, table 3).
 *
 * @param transposeA whether a is [k, m] in memory
 * @param transposeB whether b is [n, k] in memory
 * @param a matrix of type F32, BF16, F16, F8_E4M3FN or F8_E5M2 (a and b not both E5M2)
 * @param scaleA address of an F32 dequantisation multiplier, or of several; 0 for 1, and for types other than FP8
 * @param bias address of n numbers of {@code biasType}, added to each row; 0 for none
 * @param biasType BF16 or F16 for FP8 operands, the type of d otherwise
 * @param accumulate whether the product is added to d
 * @param batch number of products
 * @param fastSums whether an FP8 product may use the reduced-precision accumulation of the tensor cores: Transformer Engine uses it for
 *     fprop, but not for dgrad and wgrad
 * @param scaleMode what the scales belong to
 */
public record CudaProduct(
        boolean transposeA,
        boolean transposeB,
        int m,
        int n,
        int k,
        Matrix a,
        Matrix b,
        Matrix d,
        long scaleA,
        long scaleB,
        long bias,
        DType biasType,
        boolean accumulate,
        int batch,
        boolean fastSums,
        ScaleMode scaleMode) {
    /** What scales belong to. */
    public enum ScaleMode {
        /** One for each operand. */
        ONE,
        /** One for each row of op(a), and one for each column of op(b). */
        PER_VECTOR,
        /**
         * One for each run of {@link #BLOCK} elements along k, those of a row of op(a) or a column of op(b) one behind the other: they lie as [⌈k / 128⌉, m] and
         * [⌈k / 128⌉, n].
         */
        PER_RUN,
        /** Of op(a) as {@link #PER_RUN}; of op(b) one for each square with sides of {@link #BLOCK}: they lie as [⌈n / 128⌉, {@link #squarePitch}]. */
        PER_RUN_AND_SQUARE,
        /** Of op(b) as {@link #PER_RUN}; of op(a) one for each square: [⌈m / 128⌉, {@link #squarePitch}]. */
        PER_SQUARE_AND_RUN;

        /** Elements of a run, and of a square's side. */
        public static final int BLOCK = 128;

        /** Scales of squares from one row of squares to the next. */
        public static long squarePitch(long k) {
            return Math.ceilDiv(Math.ceilDiv(k, (long) BLOCK), 4L) * 4;
        }

        /** Whether scales belong to blocks of a part of k, so that they are applied to parts of sums. */
        public boolean isOfBlocks() {
            return this == PER_RUN || this == PER_RUN_AND_SQUARE || this == PER_SQUARE_AND_RUN;
        }
    }

    /**
     * Bytes that addresses, rows and matrices of a batch are multiples of where tensor cores are to be fed at full speed (cuBLAS 13, "Tensor Core
     * Usage"); FP8 products must have it.
     */
    public static final int ALIGNMENT = 16;

    /**
     * A matrix, or the first matrix of a batch.
     *
     * @param leading elements from one row in memory to the next
     * @param stride elements from one matrix of a batch to the next
     */
    public record Matrix(long address, DType type, long leading, long stride) {
        /** A single contiguous matrix with {@code cols} columns in memory. */
        public static Matrix of(long address, DType type, long cols) {
            return new Matrix(address, type, cols, 0);
        }

        /** Whether address, rows and stride are multiples of {@link #ALIGNMENT}. */
        public boolean isAligned() {
            long width = type.bits() / 8;
            return (address | leading * width | stride * width) % ALIGNMENT == 0;
        }

        /** Bytes from the first element to the last of {@code count} such matrices with these rows and columns in memory. */
        public long span(int rows, int cols, int count) {
            long elements = (count - 1) * stride + (rows - 1) * leading + cols;
            return elements * type.bits() / 8;
        }
    }

    /** A single product without scales and bias. */
    public static CudaProduct of(
            boolean transposeA, boolean transposeB, int m, int n, int k, Matrix a, Matrix b, Matrix d) {
        return new CudaProduct(
                transposeA, transposeB, m, n, k, a, b, d, 0, 0, 0, d.type(), false, 1, false, ScaleMode.ONE);
    }

    /** This product, accumulated to d if {@code added}. */
    public CudaProduct accumulating(boolean added) {
        return new CudaProduct(
                transposeA,
                transposeB,
                m,
                n,
                k,
                a,
                b,
                d,
                scaleA,
                scaleB,
                bias,
                biasType,
                added,
                batch,
                fastSums,
                scaleMode);
    }

    /** This product for a batch of {@code count} matrices, with the operands' strides. */
    public CudaProduct batched(int count) {
        return new CudaProduct(
                transposeA,
                transposeB,
                m,
                n,
                k,
                a,
                b,
                d,
                scaleA,
                scaleB,
                bias,
                biasType,
                accumulate,
                count,
                fastSums,
                scaleMode);
    }

    /** This product with a bias; address 0 for none. */
    public CudaProduct withBias(long address, DType type) {
        return new CudaProduct(
                transposeA,
                transposeB,
                m,
                n,
                k,
                a,
                b,
                d,
                scaleA,
                scaleB,
                address,
                type,
                accumulate,
                batch,
                fastSums,
                scaleMode);
    }

    /** This product for FP8 codes, with the addresses of their dequantisation multipliers. */
    public CudaProduct scaled(long a1, long b1, boolean fast) {
        return new CudaProduct(
                transposeA,
                transposeB,
                m,
                n,
                k,
                a,
                b,
                d,
                a1,
                b1,
                bias,
                biasType,
                accumulate,
                batch,
                fast,
                ScaleMode.ONE);
    }

    /** This product for FP8 codes with several multipliers for each operand, with the addresses of the first ones. */
    public CudaProduct scaled(ScaleMode mode, long a1, long b1, boolean fast) {
        return new CudaProduct(
                transposeA, transposeB, m, n, k, a, b, d, a1, b1, bias, biasType, accumulate, batch, fast, mode);
    }

    /** Name for logs: {@code product bf16 512x768x3072}. */
    public String name() {
        String left = CudaSource.suffix(a.type());
        String right = CudaSource.suffix(b.type());
        return "product " + (left.equals(right) ? left : left + "*" + right) + " " + m + "x" + n + "x" + k
                + (batch > 1 ? " batch " + batch : "");
    }

    /** Bytes of the operands and the result, what is added to twice. */
    public long bytes() {
        long result = (long) m * n * d.type().bits() / 8;
        return batch
                * ((long) m * k * a.type().bits() / 8
                        + (long) k * n * b.type().bits() / 8
                        + (accumulate ? 2 : 1) * result);
    }

    /** Multiplications and additions. */
    public double flops() {
        return 2.0 * m * n * k * batch;
    }

    /** Whether the operands are FP8 codes. */
    public boolean isFp8() {
        return isFp8(a.type()) || isFp8(b.type());
    }

    private static boolean isFp8(DType type) {
        return type == DType.F8_E4M3FN || type == DType.F8_E5M2;
    }
}
