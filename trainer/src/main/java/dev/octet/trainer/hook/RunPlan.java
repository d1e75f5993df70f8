package dev.octet.trainer.hook;

import java.util.List;

/**
 * A run before its first step.
 *
 * @param device as {@code cpu}, and what computes on it
 * @param precision name of the policy
 * @param trained parameters that are trained
 * @param trainedElements elements of these
 * @param frozenElements elements of parameters that are not
 * @param lastingBytes parameters, gradients, moments and other state
 * @param temporaryBytes peak of what lives within a step, planned for the first batch's shapes
 * @param notes layers that compute otherwise than the rest, and why
 */
public record RunPlan(
        String device,
        String precision,
        List<String> trained,
        long trainedElements,
        long frozenElements,
        long lastingBytes,
        long temporaryBytes,
        List<String> notes) {
    public RunPlan {
        trained = List.copyOf(trained);
        notes = List.copyOf(notes);
    }
}
