package dev.octet.quant.number;

/**
 * What a cast does with a magnitude that, after rounding, lies beyond the largest finite number of the target.
 *
 * <p>Source: ONNX operator {@code Cast}, attribute {@code saturate}, table in {@code docs/Operators.md}; the codes are those of
 * ml_dtypes 0.6.0, which the tests hold over every BF16 and F16 input.
 */
public enum Overflow {
    /**
     * Overflow and infinity become the largest finite number with the same sign; NaN stays NaN and loses its sign. The usual
     * mode for weights and activations, and the one of ONNX {@code QuantizeLinear}.
     */
    SATURATE,
    /**
     * Overflow and infinity become infinity where the format has one, else NaN; NaN keeps its sign where the format has two of
     * them. A format with neither infinity nor NaN (E2M1) saturates all the same.
     */
    NON_SATURATING
}
