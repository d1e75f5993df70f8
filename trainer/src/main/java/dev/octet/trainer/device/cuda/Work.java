package dev.octet.trainer.device.cuda;

/**
 * Something a GPU does, made ready: a launch with its arguments, a product with its algorithm, a copy, or a graph of these. Running it
 * puts it behind all that ran before and returns at once.
 */
public interface Work extends AutoCloseable {
    /** Puts the work on the GPU's stream. */
    void run();

    /** For logs: {@code gelu_forward_bf16}, {@code product bf16 512x768x3072}. */
    String name();

    /** Bytes this reads and writes in device memory where that is known, otherwise 0: for tables of what limits a step. */
    default long bytes() {
        return 0;
    }

    /** Frees what was made for it; the work must not be under way. */
    @Override
    default void close() {}
}
