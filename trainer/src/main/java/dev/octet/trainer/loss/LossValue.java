package dev.octet.trainer.loss;

import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.ToDoubleFunction;

/**
 * What a loss came to.
 *
 * @param total what is made smaller
 * @param parts what it is the weighted sum of, by name as in {@link LossGraph}; empty when it is no sum
 */
public record LossValue(double total, Map<String, Double> parts) {
    public LossValue {
        parts = Collections.unmodifiableMap(new TreeMap<>(parts));
    }

    /**
     * The mean of several, all of the same parts.
     *
     * @throws IllegalArgumentException when there is none
     */
    public static LossValue mean(List<LossValue> values) {
        if (values.isEmpty()) {
            throw new IllegalArgumentException("a mean of nothing");
        }
        Map<String, Double> parts = new TreeMap<>();
        for (String part : values.getFirst().parts.keySet()) {
            parts.put(part, mean(values, v -> v.parts.getOrDefault(part, Double.NaN)));
        }
        return new LossValue(mean(values, LossValue::total), parts);
    }

    private static double mean(Collection<LossValue> values, ToDoubleFunction<LossValue> of) {
        double sum = 0;
        for (LossValue v : values) {
            sum += of.applyAsDouble(v);
        }
        return sum / values.size();
    }
}
