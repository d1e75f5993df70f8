package dev.octet.converter.jinja;

import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** What a template can call: a macro, a method of a value, a function that transformers gives to templates. */
@FunctionalInterface
interface Callee {
    /**
     * Calls it.
     *
     * @param positional arguments in order; null is None
     * @param named arguments by name
     * @throws JinjaException when the arguments do not fit
     */
    @Nullable
    Object call(List<@Nullable Object> positional, Map<String, @Nullable Object> named);
}
