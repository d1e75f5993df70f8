package dev.octet.quant.recipe;

import org.jspecify.annotations.Nullable;

/**
 * One matrix product of a Linear.
 *
 * @param input the activation operand; null leaves it in the model's own precision (weight-only schemes)
 * @param weight the weight operand
 */
public record Gemm(@Nullable Operand input, Operand weight) {}
