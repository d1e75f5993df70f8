package dev.octet.trainer.config;

import dev.octet.trainer.yaml.Section;
import java.util.Map;

/**
 * The learning-rate schedule of a run.
 *
 * @param warmup steps over which the rate rises from zero
 */
public record ScheduleConfig(Type type, long warmup) {
    /** Shape after the warm-up. */
    public enum Type {
        /** Constant. */
        CONSTANT,
        /** Linear decay to zero. */
        LINEAR,
        /** Cosine decay to zero (half a period). */
        COSINE
    }

    private static final Map<String, Type> TYPES =
            Map.of("constant", Type.CONSTANT, "linear", Type.LINEAR, "cosine", Type.COSINE);

    static ScheduleConfig read(Section s, long steps) {
        ScheduleConfig schedule =
                new ScheduleConfig(s.choice("type", TYPES, Type.CONSTANT), s.whole("warmup", 0, 0, Long.MAX_VALUE));
        if (schedule.warmup > steps) {
            throw s.error(
                    "warmup",
                    "the warm-up of " + schedule.warmup + " steps is longer than the run of " + steps,
                    "give fewer warm-up steps, or more steps");
        }
        return schedule;
    }
}
