package dev.octet.quant.recipe;

import dev.octet.quant.number.QuantType;
import java.util.List;
import java.util.Map;

/**
 * The number formats of forward and backward; Transformer Engine's {@code fp8_format}. E5M2 in both directions does not exist: no library
 * takes it.
 */
public enum FormatPair {
    /** E4M3 forward, E5M2 for gradients. */
    HYBRID,
    /** E4M3 in both directions. */
    E4M3;

    /** The format of a tensor. */
    public QuantType of(LinearTensor tensor) {
        return this == HYBRID && tensor == LinearTensor.GRAD_OUTPUT ? QuantType.E5M2 : QuantType.E4M3FN;
    }

    static FormatPair read(RecipeFields fields, FormatPair usual) {
        String name = "fp8_format";
        if (fields.texts(name).equals(List.of("E5M2"))) {
            throw fields.error(name, "E5M2 in both directions does not train", "valid: HYBRID, E4M3");
        }
        return fields.choice(name, Map.of("HYBRID", HYBRID, "E4M3", E4M3), usual);
    }
}
