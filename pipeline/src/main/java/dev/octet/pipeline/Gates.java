package dev.octet.pipeline;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.ToDoubleFunction;

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

    /** One gate and whether the measure is at least its limit, or at most where it is to be small. */
    public record Result(String measure, double limit, double value, boolean passed) {}

    /** Whether a measure is to be small, so that its limit is the most it may be. */
    public static boolean isAtMost(String measure) {
        return AT_MOST.contains(measure);
    }

    /** Holds measures against the limits; one that is not a number passes no gate. */
    public List<Result> check(ToDoubleFunction<String> measure) {
        List<Result> results = new ArrayList<>();
        limits.forEach((name, limit) -> {
            double value = measure.applyAsDouble(name);
            results.add(new Result(name, limit, value, AT_MOST.contains(name) ? value <= limit : value >= limit));
        });
        return results;
    }
}
