package dev.octet.trainer.device.cuda;

/**
 * Prepared GPU work: a launch with its arguments, a product with its algorithm, a copy, or a graph of these. Running it queues it after all
 * earlier work and returns immediately.
 */
public interface Work extends AutoCloseable {
    /** Puts the work on the GPU's stream. */
    void run();

    /** Name for logs: {@code gelu_forward_bf16}, {@code product bf16 512x768x3072}. */
    String name();

    /** Bytes of device memory read and written, if known, else 0: for roofline tables. */
    default long bytes() {
        return 0;
    }

    /** Frees its resources; the work must not be running. */
    @Override
    default void close() {}
}
