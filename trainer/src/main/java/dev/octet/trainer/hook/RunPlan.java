package dev.octet.trainer.hook;

import dev.octet.trainer.precision.KeptLinear;
import java.util.List;

/**
 * A run before its first step.
 *
 * @param device as {@code cpu}
 * @param products what computes matrix products there
 * @param precision name of the policy
 * @param fp8Linears how many Linears are in FP8
 * @param keptLinears under FP8, matrix products that are not, and why
 * @param trained parameters that are trained
 * @param trainedElements elements of these
 * @param frozenElements elements of parameters that are not
 * @param lastingBytes parameters, gradients, moments and other state
 * @param temporaryBytes peak of what lives within a step, planned for the first batch's shapes
 * @param notes layers that compute otherwise than the rest, and why
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
        List<String> notes) {
    public RunPlan {
        keptLinears = List.copyOf(keptLinears);
        trained = List.copyOf(trained);
        notes = List.copyOf(notes);
    }
}
