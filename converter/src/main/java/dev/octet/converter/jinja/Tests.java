package dev.octet.converter.jinja;

import java.math.BigInteger;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Tests of Jinja: {@code value is name}. */
final class Tests {
    private static final Map<String, String> OPERATORS = Map.ofEntries(
            Map.entry("eq", "=="),
            Map.entry("equalto", "=="),
            Map.entry("ne", "!="),
            Map.entry("lt", "<"),
            Map.entry("lessthan", "<"),
            Map.entry("le", "<="),
            Map.entry("gt", ">"),
            Map.entry("greaterthan", ">"),
            Map.entry("ge", ">="),
            Map.entry("in", "in"));

    private static final Set<String> NAMES = Set.of(
            "defined",
            "undefined",
            "none",
            "boolean",
            "true",
            "false",
            "integer",
            "float",
            "number",
            "string",
            "mapping",
            "sequence",
            "iterable",
            "callable",
            "odd",
            "even",
            "divisibleby",
            "lower",
            "upper",
            "sameas",
            "filter",
            "test");

    private Tests() {}

    static boolean has(String name) {
        return NAMES.contains(name) || OPERATORS.containsKey(name);
    }

    static boolean holds(@Nullable Object value, Given given) {
        String name = given.what();
        String operator = OPERATORS.get(name);
        if (operator != null) {
            return PythonValues.comparison(operator, value, given.of("other").required(0, "other"));
        }
        return switch (name) {
            case "defined" -> !(value instanceof Undefined);
            case "undefined" -> value instanceof Undefined;
            case "none" -> value == null;
            case "boolean" -> value instanceof Boolean;
            case "true" -> value instanceof Boolean b && b;
            case "false" -> value instanceof Boolean b && !b;
            case "integer" -> value instanceof Long || value instanceof BigInteger;
            case "float" -> value instanceof Double;
            case "number" -> Arithmetic.isNumber(value);
            case "string" -> value instanceof String;
            case "mapping" -> value instanceof Map;
            case "sequence" ->
                value instanceof String || value instanceof List || value instanceof Map || value instanceof Undefined;
            case "iterable" ->
                value instanceof String || value instanceof List || value instanceof Map || value instanceof Undefined;
            case "callable" -> value instanceof Callee;
            case "odd" -> isMultiple(value, 2L, 1);
            case "even" -> isMultiple(value, 2L, 0);
            case "divisibleby" -> isMultiple(value, given.of("num").required(0, "num"), 0);
            case "lower" -> PythonText.of(value).equals(PythonText.of(value).toLowerCase(Locale.ROOT));
            case "upper" -> PythonText.of(value).equals(PythonText.of(value).toUpperCase(Locale.ROOT));
            case "sameas" -> {
                Object other = given.of("other").required(0, "other");
                boolean plain =
                        value == null || value instanceof Boolean || value instanceof Long || value instanceof String;
                boolean same =
                        PythonText.type(value).equals(PythonText.type(other)) && PythonValues.equal(value, other);
                // what may be equal to another, such as a list, is not taken for the same
                yield plain && same;
            }
            case "filter" -> Filters.has(PythonText.of(value));
            default -> has(PythonText.of(value));
        };
    }

    private static boolean isMultiple(@Nullable Object value, @Nullable Object of, long rest) {
        if (value instanceof Undefined u) {
            throw u.error();
        }
        return PythonValues.equal(Arithmetic.binary("%", value, of), rest);
    }
}
