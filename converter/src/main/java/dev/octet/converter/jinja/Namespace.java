package dev.octet.converter.jinja;

import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** What {@code namespace(...)} makes: attributes that {@code set} changes from within loops. */
record Namespace(Map<String, @Nullable Object> attributes) {
    static Namespace of(Map<String, @Nullable Object> attributes) {
        return new Namespace(new LinkedHashMap<>(attributes));
    }
}
