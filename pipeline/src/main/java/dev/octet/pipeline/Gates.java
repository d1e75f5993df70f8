package dev.octet.pipeline;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.Nearest;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;

/**
 * Measures that a comparison must reach.
 *
 * @param limits by name of the measure, in the order given
 */
public record Gates(Map<String, Double> limits) {
    /** Measures that are to be small. */
    private static final Set<String> AT_MOST = Set.of(Measures.PERPLEXITY_CHANGE);

    /** No gates. */
    public static final Gates NONE = new Gates(Map.of());

    /**
     * A measured number.
     *
     * @param value NaN when there is nothing to measure
     * @param of what was measured, for example {@code output logits}, or why nothing could be; empty where the name says it
     */
    public record Measure(double value, String of) {}

    /**
     * One gate and whether the measure is at least its limit, or at most where it is to be small.
     *
     * @param of what was measured, see {@link Measure}
     */
    public record Result(String measure, double limit, double value, String of, boolean passed) {}

    /**
     * Reads gates as they are typed, {@code cosine=0.997}.
     *
     * @param measures the names there are
     * @param example of one, for who gets it wrong
     * @throws InvalidOptionException for an unknown name, or without a number
     */
    public static Gates parse(List<String> typed, List<String> measures, String example) {
        Map<String, Double> limits = new LinkedHashMap<>();
        for (String text : typed) {
            String[] parts = text.split("=", 2);
            if (!measures.contains(parts[0])) {
                throw new InvalidOptionException(
                        "unknown gate '" + parts[0] + "'", "--gate", Nearest.advice(parts[0], measures));
            }
            double limit = parts.length < 2 ? Double.NaN : number(parts[1]);
            if (!Double.isFinite(limit)) {
                throw new InvalidOptionException(
                        "--gate '" + text + "' has no number", "--gate", "for example --gate " + example);
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

    /** Whether a measure is to be small, so that its limit is the most it may be. */
    public static boolean isAtMost(String measure) {
        return AT_MOST.contains(measure);
    }

    /** Holds measures against the limits; one that is not a number passes no gate. */
    public List<Result> check(Function<String, Measure> measures) {
        List<Result> results = new ArrayList<>();
        limits.forEach((name, limit) -> {
            Measure measure = measures.apply(name);
            double value = measure.value();
            boolean passed = AT_MOST.contains(name) ? value <= limit : value >= limit;
            results.add(new Result(name, limit, value, measure.of(), passed));
        });
        return results;
    }
}
