package dev.octet.trainer.config;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.optimizer.Schedule;
import dev.octet.trainer.optimizer.ScheduleOption;
import dev.octet.trainer.optimizer.ScheduleType;
import dev.octet.trainer.yaml.Section;
import java.util.Arrays;
import java.util.Collections;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * The learning-rate schedule of a run.
 *
 * @param options those of the type that are written
 * @param warmup steps over which the rate rises; 0 as long as they follow from a share of steps that are not known yet
 * @param warmupRatio share of the run's steps that the warm-up takes, above 0 and below 1; empty where steps are given
 * @param stretch whether a resumed run may have another number of steps although the learning rate then jumps
 */
public record ScheduleConfig(
        ScheduleType type, Map<String, String> options, long warmup, OptionalDouble warmupRatio, boolean stretch) {
    private static final String WARMUP = "warmup";
    private static final String FEWER = "give fewer warm-up steps, a share such as 0.1, or more steps";

    public ScheduleConfig {
        options = Collections.unmodifiableMap(new TreeMap<>(options));
    }

    /** @param steps of the run; 0 where they follow from the number of samples */
    static ScheduleConfig read(Section s, long steps) {
        ScheduleType type = s.choice("type", ScheduleType.byName(), ScheduleType.CONSTANT);
        Map<String, String> options = options(s, type);
        boolean stretch = s.flag("stretch", false);
        if (!type.hasWarmup()) {
            if (s.has(WARMUP)) {
                throw s.error(
                        WARMUP,
                        type.key() + " has no warmup",
                        type.option("warmup_num_steps").isPresent()
                                ? "write warmup_num_steps"
                                : "leave the key out, or choose another type");
            }
            return new ScheduleConfig(type, options, 0, OptionalDouble.empty(), stretch);
        }
        OptionalDouble ratio = ratio(s);
        if (ratio.isPresent()) {
            ScheduleConfig schedule = new ScheduleConfig(type, options, 0, ratio, stretch);
            return steps == 0 ? schedule : schedule.forSteps(steps);
        }
        long warmup = s.whole(WARMUP, 0, 0, Long.MAX_VALUE);
        if (steps > 0 && warmup > steps) {
            throw s.error(WARMUP, tooLong(warmup, steps), FEWER);
        }
        return new ScheduleConfig(type, options, warmup, ratio, stretch);
    }

    /** The type's options that are written; those of other types are refused. */
    private static Map<String, String> options(Section s, ScheduleType type) {
        Map<String, String> written = new TreeMap<>();
        for (ScheduleOption o : type.options()) {
            if (s.has(o.name())) {
                written.put(o.name(), value(s, o));
            }
        }
        for (ScheduleType other : ScheduleType.values()) {
            for (ScheduleOption o : other.options()) {
                if (type.option(o.name()).isEmpty() && s.isWritten(o.name()) && s.has(o.name())) {
                    throw s.error(
                            o.name(),
                            type.key() + " has no " + o.name(),
                            "leave the key out, or choose a type that has it: "
                                    + Arrays.stream(ScheduleType.values())
                                            .filter(t -> t.option(o.name()).isPresent())
                                            .map(ScheduleType::key)
                                            .collect(Collectors.joining(", ")));
                }
            }
        }
        return written;
    }

    private static String value(Section s, ScheduleOption o) {
        return switch (o.kind()) {
            case NUMBER -> String.valueOf(s.number(o.name(), 0, o.least(), o.most()));
            case WHOLE -> String.valueOf(s.whole(o.name(), 0, (long) o.least(), Long.MAX_VALUE));
            case WHOLES ->
                s.wholes(o.name(), (long) o.least()).stream()
                        .map(String::valueOf)
                        .collect(Collectors.joining(","));
            case CHOICE ->
                s.choice(
                        o.name(),
                        o.choices().stream().collect(Collectors.toMap(c -> c, c -> c)),
                        o.choices().getFirst());
        };
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
            return new ScheduleConfig(
                    type, options, (long) Math.ceil(steps * warmupRatio.getAsDouble()), warmupRatio, stretch);
        }
        if (warmup > steps) {
            throw new InvalidOptionException(tooLong(warmup, steps), "schedule: {warmup: " + warmup + "}", FEWER);
        }
        return this;
    }

    /**
     * The learning rates of a run of so many steps.
     *
     * @param peak learning rate of the optimizer
     * @throws InvalidOptionException when options are missing or contradict each other
     */
    public Schedule schedule(double peak, long steps) {
        return new Schedule(type, options, peak, warmup, steps);
    }
}
