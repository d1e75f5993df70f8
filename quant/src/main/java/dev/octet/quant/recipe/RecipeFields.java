package dev.octet.quant.recipe;

import dev.octet.formats.error.InvalidOptionException;
import java.util.List;
import java.util.Map;

/**
 * The fields of a training recipe as users wrote them, asked for by the names its library has for them; a field that is not written has its
 * usual value. All throw {@link InvalidOptionException}.
 */
public interface RecipeFields {
    /** True or false. */
    boolean flag(String name, boolean usual);

    /** A whole number from {@code min} to {@code max}. */
    long whole(String name, long usual, long min, long max);

    /** A finite number from {@code min} to {@code max}. */
    double number(String name, double usual, double min, double max);

    /** One of {@code choices} by its name. */
    <T> T choice(String name, Map<String, T> choices, T usual);

    /** Texts, one or several; empty when the field is not written. */
    List<String> texts(String name);

    /** What to throw when a field's value does not fit others. */
    InvalidOptionException error(String name, String what, String fix);
}
