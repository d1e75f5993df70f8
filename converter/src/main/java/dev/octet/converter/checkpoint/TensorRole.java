package dev.octet.converter.checkpoint;

/** What a weight is for in a transformer. */
public enum TensorRole {
    /** A projection whose product with the activations FP8 is for. */
    LINEAR,
    /** The matrices of all experts of a layer in one tensor of three axes. */
    FUSED_EXPERTS,
    /** Token, position or patch embedding: a table, not a product. */
    EMBEDDING,
    /** Weight of a LayerNorm or RMSNorm. */
    NORM,
    /** Chooses experts; small, and a wrong choice cannot be made good later. */
    ROUTER,
    /** The last product, onto the vocabulary or the classes. */
    HEAD,
    /** Biases, convolutions, position tables, statistics, anything else. */
    OTHER
}
