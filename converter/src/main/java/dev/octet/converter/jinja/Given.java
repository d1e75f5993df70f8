package dev.octet.converter.jinja;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The arguments of a call, asked for by place and name.
 *
 * @param what is called, for messages
 */
record Given(String what, List<@Nullable Object> positional, Map<String, @Nullable Object> named) {
    /** Requires that there are no others than these parameters. */
    Given of(String... parameters) {
        Set<String> unknown = new HashSet<>(named.keySet());
        unknown.removeAll(List.of(parameters));
        if (!unknown.isEmpty()) {
            throw new JinjaException(
                    what + " has no argument " + unknown.iterator().next());
        }
        if (positional.size() > parameters.length) {
            throw new JinjaException(
                    what + " takes at most " + parameters.length + " arguments, not " + positional.size());
        }
        return this;
    }

    boolean has(int place, String name) {
        return place < positional.size() || named.containsKey(name);
    }

    @Nullable
    Object get(int place, String name, @Nullable Object otherwise) {
        return place < positional.size()
                ? positional.get(place)
                : named.containsKey(name) ? named.get(name) : otherwise;
    }

    @Nullable
    Object required(int place, String name) {
        if (!has(place, name)) {
            throw new JinjaException(what + " needs the argument " + name);
        }
        return get(place, name, null);
    }

    String text(int place, String name) {
        return text(required(place, name), name);
    }

    String text(int place, String name, String otherwise) {
        return text(get(place, name, otherwise), name);
    }

    private String text(@Nullable Object value, String name) {
        if (value instanceof Undefined u) {
            throw u.error();
        }
        if (!(value instanceof String s)) {
            throw new JinjaException(what + ": " + name + " is " + PythonText.type(value) + ", not str");
        }
        return s;
    }

    int whole(int place, String name, int otherwise) {
        return has(place, name) ? Arithmetic.index(get(place, name, null)) : otherwise;
    }

    boolean flag(int place, String name, boolean otherwise) {
        return has(place, name) ? PythonValues.truth(get(place, name, null)) : otherwise;
    }
}
