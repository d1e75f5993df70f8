package dev.octet.trainer.shard;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Which rank owns which parameter, with its gradient and states. Tensors are never split, so that every optimizer and every form of states works as on one rank. The largest
 * goes first, each to the rank that has the fewest bytes so far, of equals to the first: no rank has more than the average and one largest tensor.
 *
 * @param ranks how many
 * @param owners rank from 0 by parameter, in the order in which the program has them
 */
public record Partition(int ranks, Map<String, Integer> owners) {
    public Partition {
        owners = Collections.unmodifiableMap(new LinkedHashMap<>(owners));
    }

    /** @param bytes that the owner of each parameter keeps for it, at least 0 */
    public static Partition of(int ranks, Map<String, Long> bytes) {
        List<Map.Entry<String, Long>> largest = new ArrayList<>(bytes.entrySet());
        largest.sort(Map.Entry.comparingByValue(Comparator.reverseOrder())); // stable
        long[] load = new long[ranks];
        Map<String, Integer> found = new LinkedHashMap<>();
        for (Map.Entry<String, Long> next : largest) {
            int least = 0;
            for (int r = 1; r < ranks; r++) {
                least = load[r] < load[least] ? r : least;
            }
            load[least] += next.getValue();
            found.put(next.getKey(), least);
        }
        Map<String, Integer> owners = new LinkedHashMap<>();
        bytes.keySet().forEach(name -> owners.put(name, found.getOrDefault(name, 0)));
        return new Partition(ranks, owners);
    }

    /** The part of it that speaks of some parameters. */
    Partition of(Collection<String> parameters) {
        Map<String, Integer> some = new LinkedHashMap<>();
        parameters.forEach(name -> some.put(name, owner(name)));
        return new Partition(ranks, some);
    }

    /** The rank that owns a parameter. */
    public int owner(String parameter) {
        Integer owner = owners.get(parameter);
        if (owner == null) {
            throw new IllegalArgumentException("'" + parameter + "' has no owner");
        }
        return owner;
    }
}
