/**
 * Runs programs on NVIDIA GPUs. Operators emit their work once ({@link dev.octet.trainer.kernel.CudaStream}); it is kept as
 * {@link dev.octet.trainer.device.cuda.Work} and replayed in every step, a whole step as one CUDA graph.
 * {@link dev.octet.trainer.device.cuda.Gpu} is the only interface to the hardware. This is the only package that imports jcuda.
 */
@NullMarked
package dev.octet.trainer.device.cuda;

import org.jspecify.annotations.NullMarked;
