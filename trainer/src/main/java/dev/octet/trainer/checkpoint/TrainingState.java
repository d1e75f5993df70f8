package dev.octet.trainer.checkpoint;

import dev.octet.formats.tensor.Tensor;
import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;

/**
 * A run between two steps.
 *
 * @param step steps done
 * @param microBatches micro-batches drawn from the data
 * @param settings what the run does and on what: configuration and digests of inputs, by dotted key
 * @param numbers what else is remembered: counters, running means, state of loss scalers; by dotted key, as text that gives the number back
 * @param parameters F32 master weights, by the graph's names
 * @param state what recipes, optimizers and scalers keep on the device, by the program's names
 */
public record TrainingState(
        long step,
        long microBatches,
        Map<String, String> settings,
        Map<String, String> numbers,
        Map<String, Tensor> parameters,
        Map<String, Tensor> state) {
    public TrainingState {
        settings = Collections.unmodifiableMap(new TreeMap<>(settings));
        numbers = Collections.unmodifiableMap(new TreeMap<>(numbers));
        parameters = Collections.unmodifiableMap(new TreeMap<>(parameters));
        state = Collections.unmodifiableMap(new TreeMap<>(state));
    }
}
