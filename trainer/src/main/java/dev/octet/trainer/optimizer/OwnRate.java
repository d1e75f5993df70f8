package dev.octet.trainer.optimizer;

import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;

/**
 * Parameters that are updated at a multiple of the learning rate and without weight decay: scales of fake quantisation.
 *
 * @param factors of the rate, by name; none where all have the rate of the run
 */
public record OwnRate(Map<String, Double> factors) {
    /** No such parameters. */
    public static final OwnRate NONE = new OwnRate(Map.of());

    public OwnRate {
        factors = Collections.unmodifiableMap(new TreeMap<>(factors));
    }
}
