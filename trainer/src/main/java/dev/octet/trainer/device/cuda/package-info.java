/**
 * Programs on NVIDIA GPUs. Twins write their work once ({@link dev.octet.trainer.kernel.CudaStream}); it is kept as {@link
 * dev.octet.trainer.device.cuda.Work} and played at every step, a whole step as one CUDA graph. {@link dev.octet.trainer.device.cuda.Gpu}
 * is all that is known of the machine. This is the only room that imports jcuda.
 */
@NullMarked
package dev.octet.trainer.device.cuda;

import org.jspecify.annotations.NullMarked;
