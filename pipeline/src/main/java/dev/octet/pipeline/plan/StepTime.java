package dev.octet.pipeline.plan;

/**
 * Seconds of a step, in parts that follow each other.
 *
 * @param compute forward and backward of all micro-batches on the busiest accelerator
 * @param tensor waiting for tensor-parallel neighbours
 * @param pipeline waiting for values of other stages
 * @param bubble waiting for the first micro-batch to arrive and the last to come back
 * @param data what backward does not hide of averaging gradients and gathering weights
 * @param update of the optimizer
 */
public record StepTime(double compute, double tensor, double pipeline, double bubble, double data, double update) {
    /** All of it. */
    public double total() {
        return compute + tensor + pipeline + bubble + data + update;
    }
}
