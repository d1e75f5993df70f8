package dev.octet.pipeline.plan;

import dev.octet.pipeline.plan.Accelerator.ProductType;

/**
 * What a step does, whatever it runs on.
 *
 * @param samples of a step, on all devices together
 * @param length tokens of a sample
 * @param type that Linears multiply in
 * @param bytes that each parameter takes from step to step
 */
public record PlannedStep(long samples, int length, ProductType type, ParameterBytes bytes) {
    /** Tokens of a step. */
    public long tokens() {
        return samples * length;
    }
}
