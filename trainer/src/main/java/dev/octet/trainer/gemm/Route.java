package dev.octet.trainer.gemm;

/** How oneDNN multiplies operands of a type. */
enum Route {
    /** By the library's function for products, which has F32 and BF16. */
    GEMM,

    /** By a primitive compiled for the shape: dearer to make, and the only one that uses all of a processor's matrix unit. */
    MATMUL,

    /** Widened to F32, a block that stays in the second-level cache at a time. */
    WIDENED,

    /** Not by the library at all, but by {@link VectorGemm}, which is faster where the library has no machine code of its own. */
    JAVA
}
