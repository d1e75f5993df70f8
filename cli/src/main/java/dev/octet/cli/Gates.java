package dev.octet.cli;

import dev.octet.formats.error.Nearest;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.ToDoubleFunction;
import org.apache.commons.cli.Option;

/**
 * What {@code --gate NAME=VALUE} asks for: measures that a run must reach, else it exits with 1.
 *
 * @param limits by name of the measure, in the order given
 */
record Gates(Map<String, Double> limits) {
    /** Measures that are to be small. */
    private static final Set<String> AT_MOST = Set.of(Measures.PERPLEXITY_CHANGE);

    /** One gate and whether the measure is at least its limit, or at most where it is to be small. */
    record Result(String measure, double limit, double value, boolean passed) {
        /** As a line for people, with its line break. */
        String line() {
            return String.format(
                    Locale.ROOT,
                    "gate %s: %.5f, wanted %s %s: %s%n",
                    measure,
                    value,
                    AT_MOST.contains(measure) ? "at most" : "at least",
                    limit,
                    passed ? "passed" : "FAILED");
        }
    }

    /**
     * Reads all gates of a command line.
     *
     * @param measures the names there are
     * @param example of one, for who gets it wrong
     */
    static Gates of(Arguments arguments, Option option, List<String> measures, String example) {
        Map<String, Double> limits = new LinkedHashMap<>();
        for (String text : arguments.texts(option)) {
            String[] parts = text.split("=", 2);
            if (!measures.contains(parts[0])) {
                throw arguments.usage("unknown gate '" + parts[0] + "'", Nearest.advice(parts[0], measures));
            }
            double limit = parts.length < 2 ? Double.NaN : number(parts[1]);
            if (!Double.isFinite(limit)) {
                throw arguments.usage("--gate '" + text + "' has no number", "for example --gate " + example);
            }
            limits.put(parts[0], limit);
        }
        return new Gates(limits);
    }

    private static double number(String text) {
        try {
            return Double.parseDouble(text);
        } catch (NumberFormatException e) {
            return Double.NaN;
        }
    }

    /** Holds measures against the limits; one that is not a number passes no gate. */
    List<Result> check(ToDoubleFunction<String> measure) {
        List<Result> results = new ArrayList<>();
        limits.forEach((name, limit) -> {
            double value = measure.applyAsDouble(name);
            results.add(new Result(name, limit, value, AT_MOST.contains(name) ? value <= limit : value >= limit));
        });
        return results;
    }

    /** How a run ends. */
    static ExitCode exitCode(List<Result> results) {
        return results.stream().allMatch(Result::passed) ? ExitCode.OK : ExitCode.CHECK_FAILED;
    }
}
