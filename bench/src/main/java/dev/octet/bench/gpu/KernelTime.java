package dev.octet.bench.gpu;

/**
 * What all runs of one kernel, product or copy took in a step.
 *
 * @param name as {@link dev.octet.trainer.device.cuda.Work#name} has it
 * @param micros microseconds of all runs together
 * @param bytes read and written by all runs; 0 where that is not known
 * @param flops multiplications and additions of all runs; 0 for what is not a product
 * @param fp8 whether it multiplies FP8 codes
 */
record KernelTime(String name, int runs, double micros, long bytes, double flops, boolean fp8) {
    KernelTime and(KernelTime other) {
        return new KernelTime(
                name, runs + other.runs, micros + other.micros, bytes + other.bytes, flops + other.flops, fp8);
    }

    /**
     * Share of the time that the limits of the GPU ask for at least, 1 for a kernel that reaches them; 0 where neither bytes nor operations
     * are known.
     */
    double ofLimit(Limits limits) {
        double memory = bytes / (limits.copyGigabytes() * 1e3);
        double arithmetic = flops / ((fp8 ? limits.fp8Teraflops() : limits.bf16Teraflops()) * 1e6);
        return micros == 0 ? 0 : Math.max(memory, arithmetic) / micros;
    }
}
