package dev.octet.trainer.hook;

/**
 * What a run keeps in memory from step to step for the parameters that it trains.
 *
 * @param engine how: {@code msamp (opt_level: O2, ...)}
 * @param elements of the trained parameters
 * @param weights bytes of the copies that products read, made from the masters once a step
 * @param masters bytes of the parameters themselves, with their scales
 * @param gradients bytes of their gradients
 * @param moments bytes of the optimizer's buffers, with their scales
 */
public record StatePlan(String engine, long elements, long weights, long masters, long gradients, long moments) {
    /** What is said of runs that keep all in F32. */
    public static final String F32 = "fp32";

    /** Bytes in sum. */
    public long bytes() {
        return weights + masters + gradients + moments;
    }

    /** Bytes for each trained element. */
    public double each(long bytes) {
        return (double) bytes / Math.max(1, elements);
    }
}
