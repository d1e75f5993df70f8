package dev.octet.trainer.step;

import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * Programs by key (shapes). Keeps the {@value #MAX} most recently used, so that data with many shapes does not fill the memory.
 *
 * @param <K> what a program is built for
 * @param <P> a program on a device
 */
final class RecentPrograms<K, P> implements AutoCloseable {
    static final int MAX = 32;

    private final Consumer<P> closing;
    private final Map<K, P> programs = new LinkedHashMap<>(16, 0.75f, true);

    /** @param closing frees a program */
    RecentPrograms(Consumer<P> closing) {
        this.closing = closing;
    }

    /** The program for a key, built if it is not kept. */
    P get(K key, Function<K, P> make) {
        P program = programs.get(key);
        if (program == null) {
            if (programs.size() == MAX) {
                closing.accept(Objects.requireNonNull(
                        programs.remove(programs.keySet().iterator().next())));
            }
            program = make.apply(key);
            programs.put(key, program);
        }
        return program;
    }

    /** All kept programs. */
    Collection<P> all() {
        return Collections.unmodifiableCollection(programs.values());
    }

    /** Frees all kept programs. */
    void clear() {
        programs.values().forEach(closing);
        programs.clear();
    }

    @Override
    public void close() {
        clear();
    }
}
