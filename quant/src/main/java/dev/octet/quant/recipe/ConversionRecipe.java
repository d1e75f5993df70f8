package dev.octet.quant.recipe;

import org.jspecify.annotations.Nullable;

/** A recipe for models quantised once: the forward product alone. */
record ConversionRecipe(
        String name, String ownName, @Nullable OperandSpec input, OperandSpec weight) implements Recipe {
    @Override
    public @Nullable OperandSpec operand(Product product, LinearTensor tensor) {
        return product != Product.FPROP ? null : tensor == LinearTensor.WEIGHT ? weight : input;
    }
}
