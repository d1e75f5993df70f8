package dev.octet.formats.graph;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** Immutable copies that keep the order of the original: files must come out in the order they went in. */
final class Ordered {
    private Ordered() {}

    static <K, V> Map<K, V> copyOf(Map<K, V> map) {
        return map.isEmpty() ? Map.of() : Collections.unmodifiableMap(new LinkedHashMap<>(map));
    }
}
