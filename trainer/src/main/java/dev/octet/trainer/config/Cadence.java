package dev.octet.trainer.config;

import dev.octet.trainer.yaml.Section;

/**
 * How often something happens in a run: after every so many steps, or whenever the training samples have been read once more.
 *
 * @param number of steps, or of epochs; 0 for never
 * @param unit what is counted
 */
public record Cadence(long number, Unit unit) {
    /** What is counted. */
    public enum Unit {
        STEP,
        EPOCH
    }

    /** Never. */
    public static final Cadence NEVER = ofSteps(0);

    /** At the end of each epoch. */
    public static final Cadence EPOCH = new Cadence(1, Unit.EPOCH);

    private static final String WORD = "epoch";

    /** After every so many steps; 0 for never. */
    public static Cadence ofSteps(long steps) {
        return new Cadence(steps, Unit.STEP);
    }

    /** Reads a number of steps, or {@code epoch}. */
    static Cadence read(Section s, String key, long usualSteps) {
        return s.text(key).filter(WORD::equals).isPresent()
                ? EPOCH
                : ofSteps(s.whole(key, usualSteps, 0, Long.MAX_VALUE));
    }

    /** Whether it never happens. */
    public boolean isNever() {
        return number == 0;
    }

    /**
     * Whether it happens after a step.
     *
     * @param step from 1
     * @param epochs how many epochs end with the step: 0 or, where an epoch is shorter than a step, several
     */
    public boolean isDue(long step, long epochs) {
        return switch (unit) {
            case STEP -> number > 0 && step % number == 0;
            case EPOCH -> epochs > 0;
        };
    }

    /** As a configuration has it. */
    @Override
    public String toString() {
        return unit == Unit.EPOCH ? WORD : String.valueOf(number);
    }
}
