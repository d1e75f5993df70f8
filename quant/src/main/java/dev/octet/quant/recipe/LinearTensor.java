package dev.octet.quant.recipe;

/** The tensors that the products of a Linear read. */
public enum LinearTensor {
    /** x, [tokens, inputs]. */
    INPUT,
    /** W, [outputs, inputs]. */
    WEIGHT,
    /** dy, [tokens, outputs]. */
    GRAD_OUTPUT
}
