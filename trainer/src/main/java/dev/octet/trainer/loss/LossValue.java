package dev.octet.trainer.loss;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.ToDoubleFunction;

/**
 * Value of a loss.
 *
 * @param total the loss to minimise
 * @param parts its terms or measures by name, as in {@link LossGraph}; otherwise empty
 * @param positions number of positions averaged over
 */
public record LossValue(double total, Map<String, Double> parts, long positions) {
    public LossValue {
        parts = Collections.unmodifiableMap(new TreeMap<>(parts));
    }

    /** The name of a term where numbers of a run are written: {@code task_loss}; a measure such as {@code rewards/chosen} as it is. */
    public static String field(String part) {
        return part.contains("/") ? part : part + "_loss";
    }

    /**
     * The mean of several values with the same terms, all with equal weight, as in the gradients of micro-batches.
     *
     * @throws IllegalArgumentException when the list is empty
     */
    public static LossValue mean(List<LossValue> values) {
        return weighted(values, v -> 1);
    }

    /**
     * The mean over the positions of several values with the same terms: the loss of all of them as one batch. Values without positions,
     * whose loss is NaN, are skipped; the result is NaN when no value has positions.
     *
     * @throws IllegalArgumentException when the list is empty
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
