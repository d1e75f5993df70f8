package dev.octet.trainer.config;

import dev.octet.trainer.yaml.Section;
import java.util.Optional;

/**
 * When to write checkpoints and which to keep. The last step always gets one.
 *
 * @param every how often; never for none because of the steps
 * @param minutes longest time between two checkpoints; 0 for none because of the time
 * @param keep number of checkpoints to keep, at least 1; the newest is one of them
 * @param best which evaluation's checkpoint is written and kept besides; empty for none
 */
public record CheckpointConfig(Cadence every, long minutes, int keep, Optional<Best> best) {
    /** Before the names of measures in the files of a run, where one may write it. */
    private static final String PREFIX = "eval_";

    private static final long USUAL_STEPS = 500;
    private static final long USUAL_MINUTES = 30;

    /**
     * A measure of evaluations by which checkpoints are compared.
     *
     * @param metric its name in {@code metrics.jsonl} without {@code eval_}: {@code loss}, {@code perplexity}, {@code rewards/margins}
     * @param greaterIsBetter whether the largest is the best
     */
    public record Best(String metric, boolean greaterIsBetter) {
        /** Of two equal measures the earlier stays; a NaN is never better. */
        public boolean isBetter(double measure, double than) {
            return greaterIsBetter ? measure > than : measure < than;
        }

        /** What any measure is better than. */
        public double worst() {
            return greaterIsBetter ? Double.NEGATIVE_INFINITY : Double.POSITIVE_INFINITY;
        }
    }

    static CheckpointConfig read(Section s) {
        // whoever says how many steps means just these
        long usualMinutes = s.has("every") ? 0 : USUAL_MINUTES;
        return new CheckpointConfig(
                Cadence.read(s, "every", USUAL_STEPS),
                s.whole("minutes", usualMinutes, 0, Integer.MAX_VALUE),
                (int) s.whole("keep", 3, 1, Integer.MAX_VALUE),
                best(s));
    }

    private static Optional<Best> best(Section s) {
        if (!s.has("best")) {
            if (s.has("greater_is_better")) {
                throw s.error("greater_is_better", "it says how best compares, and best is missing", "add best: loss");
            }
            return Optional.empty();
        }
        String written = s.requiredText("best");
        String metric = written.startsWith(PREFIX) ? written.substring(PREFIX.length()) : written;
        // rewards of preferred answers and the like grow; losses and perplexities fall
        boolean grows = metric.startsWith("rewards/") && !metric.equals("rewards/rejected");
        return Optional.of(new Best(metric, s.flag("greater_is_better", grows)));
    }
}
