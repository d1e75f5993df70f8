package dev.octet.trainer.loss;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.ToDoubleFunction;

/**
 * What a loss came to.
 *
 * @param total what is made smaller
 * @param parts what it is the weighted sum of, by name as in {@link LossGraph}; empty when it is not a sum
 * @param positions how many positions it is the mean over
 */
public record LossValue(double total, Map<String, Double> parts, long positions) {
    public LossValue {
        parts = Collections.unmodifiableMap(new TreeMap<>(parts));
    }

    /**
     * The mean of several, all of the same parts: each counts alike, as the gradients of micro-batches do.
     *
     * @throws IllegalArgumentException when there is none
     */
    public static LossValue mean(List<LossValue> values) {
        return weighted(values, v -> 1);
    }

    /**
     * The mean over the positions of several, all of the same parts: what the loss of all of them at once would be. One without positions,
     * whose loss is NaN, does not count; NaN when none has any.
     *
     * @throws IllegalArgumentException when there is none
     */
    public static LossValue meanOverPositions(List<LossValue> values) {
        return weighted(values, LossValue::positions);
    }

    private static LossValue weighted(List<LossValue> values, ToDoubleFunction<LossValue> weight) {
        if (values.isEmpty()) {
            throw new IllegalArgumentException("a mean of nothing");
        }
        Map<String, Double> parts = new TreeMap<>();
        for (String part : values.getFirst().parts.keySet()) {
            parts.put(part, weighted(values, weight, v -> v.parts.getOrDefault(part, Double.NaN)));
        }
        long positions = values.stream().mapToLong(LossValue::positions).sum();
        return new LossValue(weighted(values, weight, LossValue::total), parts, positions);
    }

    private static double weighted(
            List<LossValue> values, ToDoubleFunction<LossValue> weight, ToDoubleFunction<LossValue> of) {
        double sum = 0;
        double weights = 0;
        for (LossValue v : values) {
            double w = weight.applyAsDouble(v);
            if (w > 0) {
                sum += w * of.applyAsDouble(v);
                weights += w;
            }
        }
        return sum / weights;
    }
}
