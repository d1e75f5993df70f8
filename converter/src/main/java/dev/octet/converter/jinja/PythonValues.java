package dev.octet.converter.jinja;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** What Python does with values: truth, equality, order, elements. */
final class PythonValues {
    private PythonValues() {}

    /**
     * A value as Python has it, with text that Jackson or a caller made: maps, lists, text, numbers, truth values, null.
     *
     * @throws IllegalArgumentException for any other value
     */
    static @Nullable Object of(@Nullable Object value) {
        return switch (value) {
            case null -> null;
            case Boolean b -> b;
            case String s -> s;
            case BigInteger b -> Arithmetic.integer(b);
            case Byte n -> (long) n;
            case Short n -> (long) n;
            case Integer n -> (long) n;
            case Long n -> n;
            case Number n -> n.doubleValue();
            case List<?> list -> {
                List<@Nullable Object> copy = new ArrayList<>(list.size());
                list.forEach(e -> copy.add(of(e)));
                yield copy;
            }
            case Map<?, ?> map -> {
                Map<@Nullable Object, @Nullable Object> copy = new LinkedHashMap<>();
                map.forEach((k, v) -> copy.put(of(k), of(v)));
                yield copy;
            }
            default -> throw new IllegalArgumentException("a template cannot have a " + value.getClass());
        };
    }

    static boolean truth(@Nullable Object o) {
        return switch (o) {
            case null -> false;
            case Boolean b -> b;
            case Long l -> l != 0;
            case Double d -> d != 0;
            case String s -> !s.isEmpty();
            case List<?> l -> !l.isEmpty();
            case Map<?, ?> m -> !m.isEmpty();
            case Undefined _ -> false;
            default -> true;
        };
    }

    static boolean equal(@Nullable Object a, @Nullable Object b) {
        if (Arithmetic.isNumber(a) && Arithmetic.isNumber(b)) {
            return !isNan(a) && !isNan(b) && Arithmetic.compare(a, b) == 0;
        }
        if (a instanceof List<?> x && b instanceof List<?> y) {
            boolean same = x.size() == y.size() && (a instanceof Tuple) == (b instanceof Tuple);
            for (int i = 0; same && i < x.size(); i++) {
                same = equal(x.get(i), y.get(i));
            }
            return same;
        }
        if (a instanceof Map<?, ?> x && b instanceof Map<?, ?> y) {
            return x.size() == y.size()
                    && x.entrySet().stream()
                            .allMatch(e -> y.containsKey(e.getKey()) && equal(e.getValue(), y.get(e.getKey())));
        }
        if (a instanceof Undefined && b instanceof Undefined) {
            return true;
        }
        return Objects.equals(a, b);
    }

    private static boolean isNan(@Nullable Object o) {
        return o instanceof Double d && d.isNaN();
    }

    /** The order of two values; 2 when they have none although their types do (NaN). */
    static int compare(@Nullable Object a, @Nullable Object b) {
        if (a instanceof Undefined u) {
            throw u.error();
        }
        if (b instanceof Undefined u) {
            throw u.error();
        }
        if (Arithmetic.isNumber(a) && Arithmetic.isNumber(b)) {
            return isNan(a) || isNan(b) ? 2 : Integer.signum(Arithmetic.compare(a, b));
        }
        if (a instanceof String x && b instanceof String y) {
            return Integer.signum(codePoints(x, y));
        }
        if (a instanceof List<?> x && b instanceof List<?> y) {
            for (int i = 0; i < Math.min(x.size(), y.size()); i++) {
                if (!equal(x.get(i), y.get(i))) {
                    return compare(x.get(i), y.get(i));
                }
            }
            return Integer.signum(x.size() - y.size());
        }
        throw new JinjaException("no order between " + PythonText.type(a) + " and " + PythonText.type(b));
    }

    private static int codePoints(String x, String y) {
        int n = Math.min(x.length(), y.length());
        for (int i = 0; i < n; i++) {
            char a = x.charAt(i);
            char b = y.charAt(i);
            if (a != b) {
                boolean surrogates = Character.isSurrogate(a) != Character.isSurrogate(b);
                return surrogates ? (Character.isSurrogate(a) ? 1 : -1) : a - b;
            }
        }
        return x.length() - y.length();
    }

    static boolean comparison(String operator, @Nullable Object a, @Nullable Object b) {
        return switch (operator) {
            case "==" -> equal(a, b);
            case "!=" -> !equal(a, b);
            case "in" -> contains(b, a);
            case "not in" -> !contains(b, a);
            default -> {
                int order = compare(a, b);
                yield order != 2
                        && switch (operator) {
                            case "<" -> order < 0;
                            case "<=" -> order <= 0;
                            case ">" -> order > 0;
                            default -> order >= 0;
                        };
            }
        };
    }

    static boolean contains(@Nullable Object in, @Nullable Object value) {
        return switch (in) {
            case String s -> {
                if (value instanceof Undefined u) {
                    throw u.error();
                }
                if (!(value instanceof String part)) {
                    throw new JinjaException("a string cannot contain " + PythonText.type(value));
                }
                yield s.contains(part);
            }
            case List<?> list -> list.stream().anyMatch(e -> equal(e, value));
            case Map<?, ?> map -> map.containsKey(value);
            case Undefined _ -> false;
            case null, default -> throw new JinjaException(PythonText.type(in) + " has no elements");
        };
    }

    /** Number of elements. */
    static long length(@Nullable Object o) {
        return switch (o) {
            case String s -> PythonText.length(s);
            case List<?> l -> l.size();
            case Map<?, ?> m -> m.size();
            case Undefined _ -> 0;
            case null, default -> throw new JinjaException(PythonText.type(o) + " has no length");
        };
    }

    /** The elements that a loop runs over. */
    static List<@Nullable Object> elements(@Nullable Object o) {
        return switch (o) {
            case String s -> new ArrayList<>(PythonText.characters(s));
            case List<?> l -> new ArrayList<>(l);
            case Map<?, ?> m -> new ArrayList<>(m.keySet());
            case Undefined _ -> new ArrayList<>();
            case null, default -> throw new JinjaException(PythonText.type(o) + " has no elements");
        };
    }

    /** {@code of[key]}, an {@link Undefined} where there is none. */
    static @Nullable Object item(@Nullable Object of, @Nullable Object key) {
        return switch (of) {
            case Undefined u -> throw u.error();
            case Map<?, ?> map when map.containsKey(key) -> map.get(key);
            case List<?> list
            when Arithmetic.isInteger(key) -> {
                int i = Arithmetic.index(key);
                int at = i < 0 ? i + list.size() : i;
                yield at >= 0 && at < list.size() ? list.get(at) : missing(of, key);
            }
            case String s
            when Arithmetic.isInteger(key) -> {
                int length = PythonText.length(s);
                int i = Arithmetic.index(key);
                int at = i < 0 ? i + length : i;
                yield at >= 0 && at < length
                        ? Character.toString(s.codePointAt(s.offsetByCodePoints(0, at)))
                        : missing(of, key);
            }
            case null, default -> missing(of, key);
        };
    }

    static Undefined missing(@Nullable Object of, @Nullable Object key) {
        return new Undefined(PythonText.repr(key) + " of a " + PythonText.type(of));
    }

    /** {@code of[from:to:step]}. */
    static Object slice(@Nullable Object of, @Nullable Object from, @Nullable Object to, @Nullable Object step) {
        if (of instanceof Undefined u) {
            throw u.error();
        }
        if (!(of instanceof String) && !(of instanceof List)) {
            throw new JinjaException("a " + PythonText.type(of) + " has no slices");
        }
        int by = step == null ? 1 : Arithmetic.index(step);
        if (by == 0) {
            throw new JinjaException("the step of a slice is 0");
        }
        List<?> all = of instanceof List<?> l ? l : PythonText.characters((String) of);
        int n = all.size();
        long start = from == null ? (by > 0 ? 0 : n - 1) : bound(Arithmetic.index(from), n, by);
        long end = to == null ? (by > 0 ? n : -1) : bound(Arithmetic.index(to), n, by);
        List<@Nullable Object> taken = new ArrayList<>();
        for (long i = start; by > 0 ? i < end : i > end; i += by) {
            taken.add(all.get((int) i));
        }
        if (of instanceof String) {
            StringBuilder b = new StringBuilder();
            taken.forEach(b::append);
            return b.toString();
        }
        return of instanceof Tuple ? new Tuple(taken) : taken;
    }

    private static long bound(long i, int n, int by) {
        long at = i < 0 ? i + n : i;
        return by > 0 ? Math.clamp(at, 0L, n) : Math.clamp(at, -1L, n - 1L);
    }
}
