package dev.octet.trainer.observe;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Statistics of a tensor in one step, over its micro-batches.
 *
 * @param layer module of the Linear
 * @param values by Transformer Engine's names of the statistics, in the order asked for
 */
public record TensorReport(String layer, ObservedTensor tensor, Map<String, Double> values) {
    public TensorReport {
        values = Collections.unmodifiableMap(new LinkedHashMap<>(values));
    }

    /** What Transformer Engine calls a statistic in logs and for TensorBoard: {@code LAYER_activation_std}. */
    public String name(String statistic) {
        return layer + "_" + tensor.label() + "_" + statistic;
    }
}
