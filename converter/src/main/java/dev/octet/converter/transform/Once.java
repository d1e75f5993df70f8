package dev.octet.converter.transform;

import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** A value that is computed when it is first asked for, once, whichever thread asks. */
final class Once<T> implements Supplier<T> {
    private @Nullable Supplier<T> source;
    private @Nullable T value;

    Once(Supplier<T> source) {
        this.source = source;
    }

    @Override
    public synchronized T get() {
        T known = value;
        Supplier<T> from = source;
        if (known != null) {
            return known;
        }
        if (from == null) {
            throw new IllegalStateException("computing it failed before");
        }
        source = null;
        T computed = from.get();
        value = computed;
        return computed;
    }
}
