/** Matrix products on processors, and the threads that share them. */
@NullMarked
package dev.octet.trainer.gemm;

import org.jspecify.annotations.NullMarked;
