package dev.octet.trainer.hook;

import dev.octet.trainer.precision.KeptLinear;
import java.util.List;
import java.util.Optional;

/**
 * What a run will do, known before its first step.
 *
 * @param device its name, {@code cpu}
 * @param products the device's implementation of matrix products
 * @param precision name of the policy
 * @param fp8Linears number of Linears in FP8
 * @param keptLinears under FP8: matrix products that are not in FP8, with the reason
 * @param trained names of the trained parameters
 * @param trainedElements total number of their elements
 * @param frozenElements total number of elements of the frozen parameters
 * @param lastingBytes memory of parameters, gradients, moments and other state
 * @param temporaryBytes peak memory within a step, planned for the shapes of the first batch
 * @param notes remarks for the user: settings without effect, ties, layers that compute differently
 * @param adapter its method, and what lasts of {@link #lastingBytes} for what; empty where the model itself is trained
 * @param states what is kept from step to step in which form; empty where nothing counted it
 * @param activations what the settings of {@code gradient_checkpointing} and {@code activations} do; empty without them
 * @param work what a step does; empty where nothing counted it
 */
public record RunPlan(
        String device,
        String products,
        String precision,
        int fp8Linears,
        List<KeptLinear> keptLinears,
        List<String> trained,
        long trainedElements,
        long frozenElements,
        long lastingBytes,
        long temporaryBytes,
        List<String> notes,
        Optional<AdapterPlan> adapter,
        Optional<StatePlan> states,
        Optional<ActivationMemory> activations,
        Optional<StepWork> work) {
    /**
     * What a micro-batch needs between forward and backward.
     *
     * @param settings keys and values that say so, as in {@code gradient_checkpointing.layers: all}
     * @param plainBytes of a micro-batch's values when all of them are kept
     * @param bytes of a micro-batch's values as planned
     * @param again part of the step's operations that are done for the second time
     */
    public record ActivationMemory(String settings, long plainBytes, long bytes, double again) {}

    public RunPlan {
        keptLinears = List.copyOf(keptLinears);
        trained = List.copyOf(trained);
        notes = List.copyOf(notes);
    }

    /** The plan of a run that trains the model itself. */
    public RunPlan(
            String device,
            String products,
            String precision,
            int fp8Linears,
            List<KeptLinear> keptLinears,
            List<String> trained,
            long trainedElements,
            long frozenElements,
            long lastingBytes,
            long temporaryBytes,
            List<String> notes) {
        this(
                device,
                products,
                precision,
                fp8Linears,
                keptLinears,
                trained,
                trainedElements,
                frozenElements,
                lastingBytes,
                temporaryBytes,
                notes,
                Optional.empty(),
                Optional.empty(),
                Optional.empty(),
                Optional.empty());
    }
}
