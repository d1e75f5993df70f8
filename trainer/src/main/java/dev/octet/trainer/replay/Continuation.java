package dev.octet.trainer.replay;

import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.step.StepResult;
import dev.octet.trainer.step.TrainingSession;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A stretch of a run in another precision: what its losses would have been. Longer than the replays of an {@link Examination}, and without their
 * gradients.
 */
public final class Continuation {
    private Continuation() {}

    /**
     * Runs an excerpt.
     *
     * @param key names the continuation within its excerpt
     * @param policy what computes in which type
     * @return losses and norms of the steps, without gradients and updates
     * @throws dev.octet.formats.error.InvalidDataException when a sample does not fit
     */
    public static Replay of(String key, Excerpt excerpt, PrecisionPolicy policy) {
        long start = System.nanoTime();
        List<Double> losses = new ArrayList<>();
        List<Double> norms = new ArrayList<>();
        String nonFinite = "";
        try (TrainingSession session = excerpt.session(policy)) {
            for (int i = 0; i < excerpt.steps(); i++) {
                StepResult result =
                        session.step(excerpt.batches().get(i), excerpt.rates().get(i), null, false);
                losses.add(result.loss());
                norms.add(result.gradNorm());
                if (nonFinite.isEmpty() && !result.nonFinite().isEmpty()) {
                    nonFinite = "step " + (excerpt.firstStep() + i) + ": " + result.nonFinite();
                }
            }
        }
        return new Replay(key, losses, norms, List.of(), Map.of(), nonFinite, (System.nanoTime() - start) / 1e9);
    }
}
