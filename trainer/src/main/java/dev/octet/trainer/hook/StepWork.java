package dev.octet.trainer.hook;

import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * What a step does.
 *
 * @param forward multiplications and additions of matrix products in forward, for a micro-batch
 * @param products those of forward and backward, what is computed again included
 * @param again those that are computed for the second time
 * @param bytes that all other operators read and write, for a micro-batch
 * @param microBatch the steps of a micro-batch
 * @param once what is done once however many micro-batches there are: casts of weights, the update
 * @param states what they start from, F32 elements of each; a single number fills the tensor
 * @param decodedBytes operands of FP8 products that a processor has in floats at a time
 */
public record StepWork(
        long forward,
        long products,
        long again,
        long bytes,
        List<Step> microBatch,
        List<Step> once,
        Map<Value, List<Float>> states,
        long decodedBytes) {
    public StepWork {
        microBatch = List.copyOf(microBatch);
        once = List.copyOf(once);
        states = Map.copyOf(states);
    }

    /** All that is done, each once. */
    public List<Step> steps() {
        return Stream.concat(microBatch.stream(), once.stream()).toList();
    }
}
