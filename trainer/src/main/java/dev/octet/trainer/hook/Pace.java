package dev.octet.trainer.hook;

import java.util.Arrays;
import java.util.OptionalDouble;

/**
 * How fast a run goes, from its last steps. The first steps of a process do not count: while Java compiles they take a multiple of the others.
 * The median is not disturbed by an evaluation or a checkpoint between two steps.
 */
public final class Pace {
    private static final int WARM_UP_STEPS = 2;
    private static final int RECENT = 64;

    private final double[] seconds = new double[RECENT];
    private long seen;

    /** Adds a step that took so long. */
    public void add(double stepSeconds) {
        seen++;
        if (seen > WARM_UP_STEPS) {
            seconds[(int) ((seen - WARM_UP_STEPS - 1) % RECENT)] = stepSeconds;
        }
    }

    /** Median time of the last steps; empty as long as there were only the first ones. */
    public OptionalDouble secondsPerStep() {
        int known = (int) Math.min(RECENT, Math.max(0, seen - WARM_UP_STEPS));
        if (known == 0) {
            return OptionalDouble.empty();
        }
        double[] sorted = Arrays.copyOf(seconds, known);
        Arrays.sort(sorted);
        return OptionalDouble.of((sorted[(known - 1) / 2] + sorted[known / 2]) / 2);
    }
}
