package dev.octet.converter.expand;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/**
 * Values that one rewritten node computes and later ones reuse: layers of a model have the same mask and the same angles. Nodes are
 * rewritten in the order of the graph, so a shared value comes before all its readers.
 */
final class SharedValues {
    private final Map<List<Object>, Object> values = new HashMap<>();

    /**
     * The value made for {@code key} before, else the result of {@code make}.
     *
     * @param key all that the value depends on
     * @param type what is shared
     */
    <T> T get(List<Object> key, Class<T> type, Supplier<T> make) {
        Object known = values.get(key);
        if (known == null) {
            known = make.get();
            values.put(key, known);
        }
        return type.cast(known);
    }
}
