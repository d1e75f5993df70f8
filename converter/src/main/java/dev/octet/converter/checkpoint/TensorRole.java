package dev.octet.converter.checkpoint;

/** The role of a weight in a transformer. */
public enum TensorRole {
    /** A projection; FP8 speeds up its product with the activations. */
    LINEAR,
    /** The matrices of all experts of a layer in one tensor with three axes. */
    FUSED_EXPERTS,
    /** Token, position or patch embedding: a table, not a product. */
    EMBEDDING,
    /** Weight of a LayerNorm or RMSNorm. */
    NORM,
    /** Chooses experts; small, and later layers cannot correct a wrong choice. */
    ROUTER,
    /** The last product, onto the vocabulary or the classes. */
    HEAD,
    /** Biases, convolutions, position tables, statistics, anything else. */
    OTHER
}
