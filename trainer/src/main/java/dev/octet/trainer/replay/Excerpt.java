package dev.octet.trainer.replay;

import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.BFloat16;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.optimizer.StepRate;
import dev.octet.trainer.precision.LossScaling;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.step.TrainingSession;
import dev.octet.trainer.step.TrainingSetup;
import java.lang.foreign.Arena;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Some consecutive steps of a run, with all they begin from: any number of replays start from the same weights, moments and scales and read
 * the same samples.
 *
 * @param setup the run's
 * @param device where it is replayed
 * @param firstStep number of its first step, from 1
 * @param batches micro-batches of each step; their memory belongs to the caller
 * @param rates learning rate of each step
 * @param parameters F32 master weights before the first step, by name
 * @param state moments, scales and histories before the first step, by name; empty where the run begins
 * @param scale of the loss, before the first step
 * @param identity tells excerpts apart: settings, digests of the data, steps
 */
public record Excerpt(
        TrainingSetup setup,
        Device device,
        long firstStep,
        List<List<MicroBatch>> batches,
        List<StepRate> rates,
        Map<String, Tensor> parameters,
        Map<String, Tensor> state,
        LossScaling.State scale,
        String identity) {
    /** @throws IllegalArgumentException when there is no step, or not one rate for each */
    public Excerpt {
        batches = batches.stream().map(List::copyOf).toList();
        rates = List.copyOf(rates);
        parameters = Collections.unmodifiableMap(new TreeMap<>(parameters));
        state = Collections.unmodifiableMap(new TreeMap<>(state));
        if (batches.isEmpty() || batches.size() != rates.size()) {
            throw new IllegalArgumentException(batches.size() + " steps, " + rates.size() + " learning rates");
        }
    }

    /** Number of steps. */
    public int steps() {
        return batches.size();
    }

    /** Relative error of the sums of a product of codes: F32 on processors, 14 bits on FP8 units. */
    double roundingOfSums() {
        return device.name().startsWith("cuda") ? 0x1p-12 : 0x1p-17;
    }

    /** This with another state to begin from. */
    Excerpt withState(Map<String, Tensor> newState) {
        return new Excerpt(setup, device, firstStep, batches, rates, parameters, newState, scale, identity);
    }

    /** A session before the first step, in the precision of a policy. The caller closes it. */
    TrainingSession session(PrecisionPolicy policy) {
        TrainingSetup changed = new TrainingSetup(
                setup.source(),
                setup.parameters(),
                setup.stored(),
                setup.trained(),
                setup.loss(),
                policy,
                setup.scaling(),
                setup.optimizer(),
                setup.noDecay(),
                setup.maxNorm(),
                List.of(), // averages of the weights change nothing in a replay
                setup.states(),
                setup.activations(),
                setup.ranks(),
                setup.ownRate(),
                setup.shards());
        TrainingSession session = new TrainingSession(changed, device);
        session.restore(parameters, state, scale);
        session.at(firstStep);
        return session;
    }

    /** The first step alone, with vectors such as biases rounded to BF16: some FP8 products add them so, and are compared with others. */
    Excerpt firstStepOnly(Arena arena) {
        Map<String, Tensor> rounded = new TreeMap<>(parameters);
        rounded.replaceAll((_, tensor) -> tensor.shape().rank() == 1 ? rounded(tensor, arena) : tensor);
        return new Excerpt(
                setup, device, firstStep, batches.subList(0, 1), rates.subList(0, 1), rounded, state, scale, identity);
    }

    private static Tensor rounded(Tensor vector, Arena arena) {
        float[] elements = vector.toFloats();
        for (int i = 0; i < elements.length; i++) {
            elements[i] = BFloat16.toFloat(BFloat16.fromFloat(elements[i]));
        }
        return Tensor.ofFloats(arena, vector.name(), vector.shape(), elements);
    }
}
