package dev.octet.trainer.checkpoint;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.adapter.SavedAdapter;
import java.util.Collections;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * State of a run between two steps.
 *
 * @param step number of completed steps
 * @param microBatches number of micro-batches drawn from the data
 * @param settings configuration and digests of the inputs, by dotted key
 * @param numbers other state (counters, running means, loss-scaling state) by dotted key, as text from which the number is restored exactly
 * @param parameters F32 master weights, by the graph's names; of a run that trains an adapter only the adapter's
 * @param state device state of recipes, optimizers and scalers, by the program's names
 * @param adapter the adapter that is trained, as its PEFT folder has it; empty where the model itself is trained
 */
public record TrainingState(
        long step,
        long microBatches,
        Map<String, String> settings,
        Map<String, String> numbers,
        Map<String, Tensor> parameters,
        Map<String, Tensor> state,
        Optional<SavedAdapter> adapter) {
    public TrainingState {
        settings = Collections.unmodifiableMap(new TreeMap<>(settings));
        numbers = Collections.unmodifiableMap(new TreeMap<>(numbers));
        parameters = Collections.unmodifiableMap(new TreeMap<>(parameters));
        state = Collections.unmodifiableMap(new TreeMap<>(state));
    }

    /** State of a run that trains the model itself. */
    public TrainingState(
            long step,
            long microBatches,
            Map<String, String> settings,
            Map<String, String> numbers,
            Map<String, Tensor> parameters,
            Map<String, Tensor> state) {
        this(step, microBatches, settings, numbers, parameters, state, Optional.empty());
    }

    /** The same with other weights; what an adapter computes from them stays as it was. */
    public TrainingState withParameters(Map<String, Tensor> others) {
        return new TrainingState(step, microBatches, settings, numbers, others, state, adapter);
    }
}
