package dev.octet.converter.jinja;

import java.math.BigInteger;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * JSON as Python's {@code json.dumps} writes it.
 *
 * @param ascii whether characters beyond ASCII are escaped
 * @param indent what one level is indented by; null for one line
 * @param item between elements
 * @param key between a key and its value
 * @param sorted whether keys are in order
 */
record JsonText(boolean ascii, @Nullable String indent, String item, String key, boolean sorted) {
    private static final int DEEPEST = 100;

    String of(@Nullable Object value) {
        StringBuilder b = new StringBuilder();
        write(value, 0, b);
        return b.toString();
    }

    private void write(@Nullable Object value, int depth, StringBuilder to) {
        if (depth > DEEPEST) {
            throw new JinjaException("a value is nested more than " + DEEPEST + " deep");
        }
        switch (value) {
            case null -> to.append("null");
            case Boolean b -> to.append(b);
            case Long l -> to.append(l);
            case BigInteger i -> to.append(i);
            case Double d ->
                to.append(
                        d.isNaN() ? "NaN" : d.isInfinite() ? (d > 0 ? "Infinity" : "-Infinity") : PythonText.number(d));
            case String s -> quote(s, to);
            case List<?> list -> {
                to.append('[');
                for (int i = 0; i < list.size(); i++) {
                    to.append(i == 0 ? "" : item);
                    line(depth + 1, to);
                    write(list.get(i), depth + 1, to);
                }
                if (!list.isEmpty()) {
                    line(depth, to);
                }
                to.append(']');
            }
            case Map<?, ?> map -> {
                to.append('{');
                boolean first = true;
                List<? extends Map.Entry<?, ?>> entries = sorted
                        ? map.entrySet().stream()
                                .sorted((a, b) -> PythonValues.compare(a.getKey(), b.getKey()))
                                .toList()
                        : List.copyOf(map.entrySet());
                for (Map.Entry<?, ?> e : entries) {
                    to.append(first ? "" : item);
                    first = false;
                    line(depth + 1, to);
                    quote(name(e.getKey()), to);
                    to.append(key);
                    write(e.getValue(), depth + 1, to);
                }
                if (!map.isEmpty()) {
                    line(depth, to);
                }
                to.append('}');
            }
            default -> throw new JinjaException(PythonText.type(value) + " cannot be written as JSON");
        }
    }

    private static String name(@Nullable Object key) {
        return key instanceof String s ? s : new JsonText(false, null, ", ", ": ", false).of(key);
    }

    private void line(int depth, StringBuilder to) {
        if (indent != null) {
            to.append('\n').repeat(indent, depth);
        }
    }

    private void quote(String s, StringBuilder to) {
        to.append('"');
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            switch (c) {
                case '"' -> to.append("\\\"");
                case '\\' -> to.append("\\\\");
                case '\n' -> to.append("\\n");
                case '\r' -> to.append("\\r");
                case '\t' -> to.append("\\t");
                case '\b' -> to.append("\\b");
                case '\f' -> to.append("\\f");
                default -> {
                    if (c < 0x20 || (ascii && c > 0x7e)) {
                        to.append(String.format(Locale.ROOT, "\\u%04x", (int) c));
                    } else {
                        to.append(c);
                    }
                }
            }
        }
        to.append('"');
    }
}
