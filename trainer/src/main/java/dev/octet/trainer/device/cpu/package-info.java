/** Runs programs on CPUs: one arena of memory outside the Java heap, kernels from the operators' CPU twins. */
@NullMarked
package dev.octet.trainer.device.cpu;

import org.jspecify.annotations.NullMarked;
