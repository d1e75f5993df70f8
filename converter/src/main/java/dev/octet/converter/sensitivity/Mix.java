package dev.octet.converter.sensitivity;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * One format for each Linear.
 *
 * @param bits of all weights, scales included
 * @param loss predicted
 * @param formats by weight, {@link MixGroup#KEPT} for one that stays as it is; in the graph's order
 */
public record Mix(long bits, double loss, Map<String, String> formats) {
    public Mix {
        formats = Collections.unmodifiableMap(new LinkedHashMap<>(formats));
    }

    /** How many Linears have each format, in the order in which they first occur. */
    public Map<String, Integer> counts() {
        Map<String, Integer> counts = new LinkedHashMap<>();
        formats.values().forEach(f -> counts.merge(f, 1, Integer::sum));
        return counts;
    }
}
