package dev.octet.formats.graph;

import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Name and type of a value. {@code unknown}: fields passed through untouched. */
public record ValueInfo(
        String name, @Nullable ValueType type, String doc, Map<String, String> metadata, Bytes unknown) {
    public ValueInfo {
        metadata = Ordered.copyOf(metadata);
    }

    public ValueInfo(String name, @Nullable ValueType type) {
        this(name, type, "", Map.of(), Bytes.EMPTY);
    }

    /** A copy with this type. */
    public ValueInfo withType(@Nullable ValueType newType) {
        return new ValueInfo(name, newType, doc, metadata, unknown);
    }

    /** A copy with this name. */
    public ValueInfo withName(String newName) {
        return new ValueInfo(newName, type, doc, metadata, unknown);
    }
}
