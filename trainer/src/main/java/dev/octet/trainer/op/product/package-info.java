/**
 * Products of matrices: Linear, MatMul, Gemm. On processors each is one call of {@link dev.octet.trainer.kernel.MatrixProducts} per product,
 * forward and for each gradient; nothing is transposed in memory.
 */
@NullMarked
package dev.octet.trainer.op.product;

import org.jspecify.annotations.NullMarked;
