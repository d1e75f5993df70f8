package dev.octet.converter.data;

import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A row of a data set.
 *
 * @param values by column: maps, lists, text, numbers, truth values, null
 * @param where its file and line or row, for messages
 */
record Row(Map<String, @Nullable Object> values, String where) {
    boolean has(String column) {
        return values.get(column) != null;
    }

    @Nullable
    Object get(String column) {
        return values.get(column);
    }
}
