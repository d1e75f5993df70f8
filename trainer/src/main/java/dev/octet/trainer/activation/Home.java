package dev.octet.trainer.activation;

/** Where what is kept lies from the last forward step that reads it to the first backward step that does ({@code offload.activations}). */
public enum Home {
    /** In the memory of the device. */
    DEVICE,
    /** In pinned memory of the host. */
    HOST;

    /** Bytes below which a value stays on the device: a copy would take longer than its room is worth. */
    public static final long LEAST_BYTES = 16 << 10;
}
