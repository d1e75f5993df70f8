/** Matrix products on CPUs, and the thread team that computes them. */
@NullMarked
package dev.octet.trainer.gemm;

import org.jspecify.annotations.NullMarked;
