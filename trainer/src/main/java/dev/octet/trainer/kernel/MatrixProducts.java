package dev.octet.trainer.kernel;

import dev.octet.formats.tensor.DType;
import java.lang.foreign.MemorySegment;

/** Matrix products, from a native library or in plain Java. */
public interface MatrixProducts {
    /**
     * A product {@code C = op(A)·op(B)} or {@code C += op(A)·op(B)}, row-major; op(A) is [m, k], op(B) is [k, n].
     *
     * @param transposeA whether A is [k, m] in memory
     * @param transposeB whether B is [n, k] in memory
     * @param lda elements from one row of A in memory to the next; ldb and ldc likewise
     * @param operands element type of A and B: F32, BF16 or F16; products are exact, sums are F32
     * @param result element type of C: F32, or the operands' type
     * @param accumulate whether the product is added to C
     */
    record Call(
            boolean transposeA,
            boolean transposeB,
            int m,
            int n,
            int k,
            long lda,
            long ldb,
            long ldc,
            DType operands,
            DType result,
            boolean accumulate) {
        /** A product of contiguous matrices. */
        public static Call of(
                boolean transposeA,
                boolean transposeB,
                int m,
                int n,
                int k,
                DType operands,
                DType result,
                boolean accumulate) {
            return new Call(
                    transposeA,
                    transposeB,
                    m,
                    n,
                    k,
                    transposeA ? m : k,
                    transposeB ? k : n,
                    n,
                    operands,
                    result,
                    accumulate);
        }

        /** The same product of fewer rows and columns, with the strides of the parts of A, B and C. */
        public Call ofPart(int rows, int columns, long strideA, long strideB, long strideC) {
            return new Call(
                    transposeA, transposeB, rows, columns, k, strideA, strideB, strideC, operands, result, accumulate);
        }
    }

    /** Name of the implementation, for logs: {@code oneDNN 3.11, avx512_core_bf16}. */
    String name();

    /** Computes on the calling thread only: for products inside a piece of {@link Parallel#pieces}. */
    void single(Call call, MemorySegment a, MemorySegment b, MemorySegment c);

    /** Computes with the threads of {@code parallel}; bitwise independent of their number. Must not be called inside a piece. */
    void shared(Call call, MemorySegment a, MemorySegment b, MemorySegment c, Parallel parallel);
}
