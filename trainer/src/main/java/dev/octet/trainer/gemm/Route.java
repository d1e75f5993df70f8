package dev.octet.trainer.gemm;

/** How an operand type is multiplied. */
enum Route {
    /** The library's plain function, which has F32 and BF16. */
    GEMM,

    /** A primitive compiled for the shape: more expensive to create, and the only one that uses all of a processor's matrix unit. */
    MATMUL,

    /** Widened to F32, in blocks that fit the second-level cache. */
    WIDENED,

    /** Without the library, by {@link VectorGemm}, which is faster where the library does not generate machine code. */
    JAVA
}
