package dev.octet.trainer.device.cuda;

/** Streams of a GPU: work of one runs in order, that of different ones at the same time unless a {@link Signal} orders it. */
public enum Lane {
    /** Kernels, products, and copies that belong to them. */
    COMPUTE,
    /** Copies from the host of what is computed with later. */
    IN,
    /** Copies to the host of what has been computed. */
    OUT
}
