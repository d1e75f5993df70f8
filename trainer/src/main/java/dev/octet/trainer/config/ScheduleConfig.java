package dev.octet.trainer.config;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.optimizer.Schedule;
import dev.octet.trainer.yaml.Section;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;

/**
 * The learning-rate schedule of a run.
 *
 * @param warmup steps over which the rate rises from zero; 0 as long as they follow from a share of steps that are not known yet
 * @param warmupRatio share of the run's steps that the warm-up takes, above 0 and below 1; empty where steps are given
 * @param stretch whether a resumed run may have another number of steps although the learning rate then jumps
 */
public record ScheduleConfig(Type type, long warmup, OptionalDouble warmupRatio, boolean stretch) {
    private static final String WARMUP = "warmup";
    private static final String FEWER = "give fewer warm-up steps, a share such as 0.1, or more steps";

    /** Shape after the warm-up. */
    public enum Type {
        /** Constant. */
        CONSTANT,
        /** Linear decay to zero. */
        LINEAR,
        /** Cosine decay to zero (half a period). */
        COSINE;

        /** Its name in a configuration. */
        public String key() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    private static final Map<String, Type> TYPES =
            Map.of("constant", Type.CONSTANT, "linear", Type.LINEAR, "cosine", Type.COSINE);

    /** @param steps of the run; 0 where they follow from the number of samples */
    static ScheduleConfig read(Section s, long steps) {
        Type type = s.choice("type", TYPES, Type.CONSTANT);
        OptionalDouble ratio = ratio(s);
        boolean stretch = s.flag("stretch", false);
        if (ratio.isPresent()) {
            ScheduleConfig schedule = new ScheduleConfig(type, 0, ratio, stretch);
            return steps == 0 ? schedule : schedule.forSteps(steps);
        }
        long warmup = s.whole(WARMUP, 0, 0, Long.MAX_VALUE);
        if (steps > 0 && warmup > steps) {
            throw s.error(WARMUP, tooLong(warmup, steps), FEWER);
        }
        return new ScheduleConfig(type, warmup, ratio, stretch);
    }

    private static String tooLong(long warmup, long steps) {
        return "the warm-up of " + warmup + " steps is longer than the run of " + steps;
    }

    /** A share of the run, as 0.1 or 10 %; empty for a number of steps. */
    private static OptionalDouble ratio(Section s) {
        Optional<String> text = s.text(WARMUP);
        if (text.isEmpty() || text.get().matches("[-+]?[\\d_]*")) {
            return OptionalDouble.empty();
        }
        boolean percent = text.get().endsWith("%");
        String number =
                percent ? text.get().substring(0, text.get().length() - 1).strip() : text.get();
        String fix = "give steps, as 100, or a share of the run, as 0.1 or 10%";
        try {
            double ratio = Double.parseDouble(number) / (percent ? 100 : 1);
            if (ratio > 0 && ratio < 1) {
                return OptionalDouble.of(ratio);
            }
        } catch (NumberFormatException e) {
            throw s.error(WARMUP, "'" + text.get() + "' is neither a number of steps nor a share of the run", fix);
        }
        throw s.error(WARMUP, "a warm-up of " + text.get() + " is not a share of the run", fix);
    }

    /**
     * This schedule in a run of so many steps: with a share, the warm-up is rounded up as in transformers.
     *
     * @throws InvalidOptionException when the warm-up is longer than the run
     */
    ScheduleConfig forSteps(long steps) {
        if (warmupRatio.isPresent()) {
            return new ScheduleConfig(type, (long) Math.ceil(steps * warmupRatio.getAsDouble()), warmupRatio, stretch);
        }
        if (warmup > steps) {
            throw new InvalidOptionException(tooLong(warmup, steps), "schedule: {warmup: " + warmup + "}", FEWER);
        }
        return this;
    }

    /** The learning rates of a run of so many steps, as factors of the highest. */
    public Schedule schedule(long steps) {
        Schedule.Shape shape = switch (type) {
            case CONSTANT -> Schedule.Shape.CONSTANT;
            case LINEAR -> Schedule.Shape.LINEAR;
            case COSINE -> Schedule.Shape.COSINE;
        };
        return new Schedule(shape, warmup, steps);
    }
}
