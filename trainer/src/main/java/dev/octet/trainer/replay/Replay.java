package dev.octet.trainer.replay;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * What a replay did, compared with another.
 *
 * @param key names the replay and what it is compared with, within their excerpt: the same key is the same computation
 * @param losses of each step
 * @param norms of the gradient of all parameters, in each step
 * @param gradients for each step, by trained parameter
 * @param updates of all steps together, by trained parameter
 * @param nonFinite where the first number that is not finite appeared, in words; empty where all are finite
 * @param seconds that it took
 */
public record Replay(
        String key,
        List<Double> losses,
        List<Double> norms,
        List<Map<String, Difference>> gradients,
        Map<String, Difference> updates,
        String nonFinite,
        double seconds) {
    public Replay {
        losses = List.copyOf(losses);
        norms = List.copyOf(norms);
        List<Map<String, Difference>> steps = new ArrayList<>();
        gradients.forEach(g -> steps.add(Collections.unmodifiableMap(new TreeMap<>(g))));
        gradients = List.copyOf(steps);
        updates = Collections.unmodifiableMap(new TreeMap<>(updates));
    }

    /** Whether every loss and gradient is finite. */
    public boolean finite() {
        return nonFinite.isEmpty();
    }

    /** Whether it is a replay of so many steps: a file may hold anything. */
    boolean isOf(int steps) {
        return losses.size() == steps && norms.size() == steps && gradients.size() == steps;
    }
}
