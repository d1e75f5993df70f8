package dev.octet.trainer.optimizer;

import java.util.List;
import java.util.Optional;

/**
 * A number or choice of a learning-rate schedule; names, meanings and defaults are those of the library that the schedule is from.
 *
 * @param name its key in a configuration
 * @param kind what may be written
 * @param fallback its value where nothing is written; empty where that follows from other values, or where it must be written
 * @param least smallest number
 * @param most largest number
 * @param choices what may be written for a {@link Kind#CHOICE}
 */
public record ScheduleOption(
        String name, Kind kind, Optional<String> fallback, double least, double most, List<String> choices) {
    /** What may be written. */
    public enum Kind {
        /** A finite number. */
        NUMBER,
        /** A whole number. */
        WHOLE,
        /** Whole numbers, in any order. */
        WHOLES,
        /** One of a few words. */
        CHOICE
    }

    public ScheduleOption {
        choices = List.copyOf(choices);
    }

    /** A number from 0 on. */
    static ScheduleOption number(String name, double fallback) {
        return new ScheduleOption(
                name, Kind.NUMBER, Optional.of(String.valueOf(fallback)), 0, Double.MAX_VALUE, List.of());
    }

    /** A number from 0 on whose default follows from other values. */
    static ScheduleOption number(String name) {
        return new ScheduleOption(name, Kind.NUMBER, Optional.empty(), 0, Double.MAX_VALUE, List.of());
    }

    /** A number from 0 to below 1. */
    static ScheduleOption below1(String name, double fallback) {
        return new ScheduleOption(
                name, Kind.NUMBER, Optional.of(String.valueOf(fallback)), 0, Math.nextDown(1.0), List.of());
    }

    /** A number from 0 to 1. */
    static ScheduleOption share(String name, double fallback) {
        return new ScheduleOption(name, Kind.NUMBER, Optional.of(String.valueOf(fallback)), 0, 1, List.of());
    }

    /** A number from 0 to 1 whose default follows from other values. */
    static ScheduleOption share(String name) {
        return new ScheduleOption(name, Kind.NUMBER, Optional.empty(), 0, 1, List.of());
    }

    /** A whole number from {@code least} on. */
    static ScheduleOption whole(String name, long least, long fallback) {
        return new ScheduleOption(
                name, Kind.WHOLE, Optional.of(String.valueOf(fallback)), least, Long.MAX_VALUE, List.of());
    }

    /** A whole number from {@code least} on whose default follows from other values. */
    static ScheduleOption whole(String name, long least) {
        return new ScheduleOption(name, Kind.WHOLE, Optional.empty(), least, Long.MAX_VALUE, List.of());
    }

    /** Whole numbers from {@code least} on, which must be written. */
    static ScheduleOption wholes(String name, long least) {
        return new ScheduleOption(name, Kind.WHOLES, Optional.empty(), least, Long.MAX_VALUE, List.of());
    }

    /** One of a few words, the first by default. */
    static ScheduleOption choice(String name, String... choices) {
        return new ScheduleOption(name, Kind.CHOICE, Optional.of(choices[0]), 0, 0, List.of(choices));
    }
}
