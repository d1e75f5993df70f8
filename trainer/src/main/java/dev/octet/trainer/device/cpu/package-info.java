/** Programs on processors: one arena of memory outside the heap, kernels of the CPU twins. */
@NullMarked
package dev.octet.trainer.device.cpu;

import org.jspecify.annotations.NullMarked;
