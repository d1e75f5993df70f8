package dev.octet.converter.plan;

/** The form of embeddings, tables from which rows are gathered, in a converted graph. */
public enum EmbeddingForm {
    /** As they are. */
    FLOATS,
    /**
     * Symmetric 8-bit integers with one F32 scale per row, {@code amax / 127}: a quarter of the size, about 43 dB for normally distributed
     * weights. Rows are gathered first and dequantised after, so that a step reads only the rows that it uses.
     *
     * <p>Not 8-bit floats, because ONNX's Gather does not take them. With DequantizeLinear before Gather, ONNX Runtime 1.30 dequantises
     * the whole table at each step (35 ms for 30,522 rows of 384 on two cores, against 0.3 ms), and E4M3 has 11 dB more noise.
     */
    INT8
}
