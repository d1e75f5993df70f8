package dev.octet.cli;

import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * How often a run prints a line.
 *
 * @param steps steps between two lines; 0 where time decides
 * @param nanos time between two lines; 0 where steps decide
 */
record LogCadence(long steps, long nanos) {
    private static final Pattern TEXT = Pattern.compile("(\\d{1,9})(s?)");

    /** {@code 100} for steps, {@code 30s} for seconds; empty for any other text. */
    static Optional<LogCadence> of(String text) {
        Matcher matcher = TEXT.matcher(text);
        if (!matcher.matches() || Long.parseLong(matcher.group(1)) == 0) {
            return Optional.empty();
        }
        long n = Long.parseLong(matcher.group(1));
        return Optional.of(
                matcher.group(2).isEmpty() ? new LogCadence(n, 0) : new LogCadence(0, TimeUnit.SECONDS.toNanos(n)));
    }

    /** A time that grows with a run: a twentieth of it, so that an hour has about a hundred lines and a day no more than 1500. */
    static long growing(long elapsedNanos, long shortestNanos) {
        return Math.clamp(elapsedNanos / 20, shortestNanos, TimeUnit.MINUTES.toNanos(1));
    }

    /** Whether a step is to have a line. */
    boolean isDue(long step, long sinceLastNanos) {
        return steps > 0 ? step % steps == 0 : sinceLastNanos >= nanos;
    }
}
