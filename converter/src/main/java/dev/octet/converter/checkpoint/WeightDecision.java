package dev.octet.converter.checkpoint;

import dev.octet.formats.tensor.Shape;

/**
 * What becomes of one matrix.
 *
 * @param name own name of the weight
 * @param shape its own shape
 * @param role what it is for
 * @param quantized whether it is quantised in the target
 * @param reason why it is not; empty when it is
 */
public record WeightDecision(String name, Shape shape, TensorRole role, boolean quantized, String reason) {}
