package dev.octet.trainer.kernel;

import dev.octet.formats.tensor.DType;

/**
 * {@code d = epilogue(scaleA · scaleB · op(a)·op(b) (+ bias)) (+ d)}, all row-major: op(a) is [m, k], op(b) is [k, n], d is [m, n]. Products
 * are exact, sums F32.
 *
 * <p>FP8 operands: {@code a} must not be transposed and {@code b} must be (the library's TN form); k and both leading dimensions are multiples
 * of 16, n times the size of a result element is, addresses are multiples of 16; d is BF16, F16 or F32 (cuBLAS 13, table 3).
 *
 * @param transposeA a lies as [k, m]
 * @param transposeB b lies as [n, k]
 * @param a element type F32, BF16, F16, F8_E4M3FN or F8_E5M2 (not both E5M2), with the elements from one row to the next as it lies
 * @param scaleA address of an F32 dequantisation multiplier; 0 for 1, and for types other than FP8
 * @param bias address of n numbers of {@code biasType}, added to each row; 0 for none
 * @param biasType BF16 or F16 for FP8 operands, the type of d otherwise
 * @param accumulate whether the product is added to d
 * @param batch how many products
 * @param fastSums whether an FP8 product may add up in the reduced precision of the tensor cores: fprop's choice in Transformer Engine;
 *     dgrad and wgrad do not
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
        boolean fastSums) {
    /**
     * A matrix, or the first of several.
     *
     * @param leading elements from one row to the next
     * @param stride elements from one matrix of a batch to the next
     */
    public record Matrix(long address, DType type, long leading, long stride) {
        /** A single contiguous matrix of {@code cols} columns, as it lies. */
        public static Matrix of(long address, DType type, long cols) {
            return new Matrix(address, type, cols, 0);
        }
    }

    /** One product without scales and bias. */
    public static CudaProduct of(
            boolean transposeA, boolean transposeB, int m, int n, int k, Matrix a, Matrix b, Matrix d) {
        return new CudaProduct(transposeA, transposeB, m, n, k, a, b, d, 0, 0, 0, d.type(), false, 1, false);
    }

    /** The same, added to d when {@code added}. */
    public CudaProduct accumulating(boolean added) {
        return new CudaProduct(
                transposeA, transposeB, m, n, k, a, b, d, scaleA, scaleB, bias, biasType, added, batch, fastSums);
    }

    /** The same for {@code count} matrices, by the operands' strides. */
    public CudaProduct batched(int count) {
        return new CudaProduct(
                transposeA, transposeB, m, n, k, a, b, d, scaleA, scaleB, bias, biasType, accumulate, count, fastSums);
    }

    /** The same with a bias; address 0 for none. */
    public CudaProduct withBias(long address, DType type) {
        return new CudaProduct(
                transposeA, transposeB, m, n, k, a, b, d, scaleA, scaleB, address, type, accumulate, batch, fastSums);
    }

    /** The same of FP8 codes, with the addresses of their dequantisation multipliers. */
    public CudaProduct scaled(long a1, long b1, boolean fast) {
        return new CudaProduct(
                transposeA, transposeB, m, n, k, a, b, d, a1, b1, bias, biasType, accumulate, batch, fast);
    }

    /** Whether the operands are FP8 codes. */
    public boolean isFp8() {
        return isFp8(a.type()) || isFp8(b.type());
    }

    private static boolean isFp8(DType type) {
        return type == DType.F8_E4M3FN || type == DType.F8_E5M2;
    }
}
