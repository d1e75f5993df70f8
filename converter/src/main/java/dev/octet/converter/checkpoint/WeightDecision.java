package dev.octet.converter.checkpoint;

import dev.octet.formats.tensor.Shape;

/**
 * The decision on one matrix.
 *
 * @param name own name of the weight
 * @param shape its own shape
 * @param role its role
 * @param quantized whether it is quantised in the target
 * @param reason why it is not quantised; empty if it is
 */
public record WeightDecision(String name, Shape shape, TensorRole role, boolean quantized, String reason) {}
