package dev.octet.quant.recipe;

import dev.octet.quant.number.Float8Format;

/**
 * Which number formats a training recipe uses. E5M2 in both directions does not exist: no library takes it.
 */
public enum Fp8Format {
    /** E4M3 forward, E5M2 for gradients. */
    HYBRID,
    /** E4M3 in both directions. */
    E4M3;

    /** The format of a tensor. */
    public Float8Format of(LinearTensor tensor) {
        return this == HYBRID && tensor == LinearTensor.GRAD_OUTPUT ? Float8Format.E5M2 : Float8Format.E4M3FN;
    }
}
