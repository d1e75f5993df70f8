package dev.octet.trainer.replay;

import java.time.Duration;
import java.util.function.Consumer;

/**
 * How to examine.
 *
 * @param steps of each replay, at least 1
 * @param maxReplays at most so many replays are run; those found in the log do not count
 * @param maxTime no replay begins after so long
 * @param features whether to switch features around the products off first: where a run is off from its first steps
 * @param log of finished replays
 * @param progress called with each finished replay
 */
public record ExaminationOptions(
        int steps, int maxReplays, Duration maxTime, boolean features, ReplayLog log, Consumer<Experiment> progress) {
    /** Steps of a replay: enough for scales to age, few enough to be quick. */
    public static final int STEPS = 4;

    /** @throws IllegalArgumentException when there are no steps */
    public ExaminationOptions {
        if (steps < 1) {
            throw new IllegalArgumentException(steps + " steps to replay");
        }
    }

    /** No limit, no log, features left alone. */
    public static ExaminationOptions defaults() {
        return new ExaminationOptions(
                STEPS, Integer.MAX_VALUE, Duration.ofDays(365), false, ReplayLog.inMemory(), _ -> {});
    }

    /** These with so many steps. */
    public ExaminationOptions withSteps(int newSteps) {
        return new ExaminationOptions(newSteps, maxReplays, maxTime, features, log, progress);
    }

    /** These with a budget. */
    public ExaminationOptions withBudget(int replays, Duration time) {
        return new ExaminationOptions(steps, replays, time, features, log, progress);
    }

    /** These, with features first. */
    public ExaminationOptions withFeatures() {
        return new ExaminationOptions(steps, maxReplays, maxTime, true, log, progress);
    }

    /** These with a log. */
    public ExaminationOptions withLog(ReplayLog newLog) {
        return new ExaminationOptions(steps, maxReplays, maxTime, features, newLog, progress);
    }

    /** These with a listener. */
    public ExaminationOptions withProgress(Consumer<Experiment> listener) {
        return new ExaminationOptions(steps, maxReplays, maxTime, features, log, listener);
    }
}
