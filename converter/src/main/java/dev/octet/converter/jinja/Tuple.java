package dev.octet.converter.jinja;

import java.util.AbstractList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A tuple of Python: a list that is written with parentheses. */
final class Tuple extends AbstractList<@Nullable Object> {
    private final List<@Nullable Object> elements;

    Tuple(List<@Nullable Object> elements) {
        this.elements = elements;
    }

    @Override
    public @Nullable Object get(int index) {
        return elements.get(index);
    }

    @Override
    public int size() {
        return elements.size();
    }
}
