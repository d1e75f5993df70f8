package dev.octet.converter.expand;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/**
 * Values that one rewritten node computed and later ones read again: layers of a model have the same mask and the same angles. Nodes are
 * rewritten in the order of the graph, so what is shared stands before all its readers.
 */
final class SharedValues {
    private final Map<List<Object>, Object> values = new HashMap<>();

    /**
     * What was made for {@code key} before, else what {@code make} makes.
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
