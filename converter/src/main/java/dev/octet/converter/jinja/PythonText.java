package dev.octet.converter.jinja;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Values as Python writes them ({@code str}, {@code repr}), and text as Python counts and strips it: by code points, Unicode's white space. */
final class PythonText {
    private static final int DEEPEST = 100;

    private PythonText() {}

    /** {@code str(value)}. */
    static String of(@Nullable Object value) {
        return value instanceof String s ? s : value instanceof Undefined ? "" : repr(value, 0);
    }

    /** {@code repr(value)}. */
    static String repr(@Nullable Object value) {
        return repr(value, 0);
    }

    private static String repr(@Nullable Object value, int depth) {
        if (depth > DEEPEST) {
            throw new JinjaException("a value is nested more than " + DEEPEST + " deep");
        }
        return switch (value) {
            case null -> "None";
            case Boolean b -> b ? "True" : "False";
            case Double d -> number(d);
            case String s -> quoted(s);
            case List<?> list -> {
                boolean tuple = list instanceof Tuple;
                StringBuilder b = new StringBuilder(tuple ? "(" : "[");
                for (int i = 0; i < list.size(); i++) {
                    b.append(i == 0 ? "" : ", ").append(repr(list.get(i), depth + 1));
                }
                yield b.append(tuple && list.size() == 1 ? "," : "")
                        .append(tuple ? ")" : "]")
                        .toString();
            }
            case Map<?, ?> map -> {
                StringBuilder b = new StringBuilder("{");
                map.forEach((k, v) -> b.append(b.length() == 1 ? "" : ", ")
                        .append(repr(k, depth + 1))
                        .append(": ")
                        .append(repr(v, depth + 1)));
                yield b.append("}").toString();
            }
            case Undefined _ -> "Undefined";
            case Namespace n -> "<Namespace " + repr(n.attributes(), depth + 1) + ">";
            default -> value.toString();
        };
    }

    /** A float as Python writes it: the shortest digits that give it back, with an exponent below 1e-4 and from 1e16. */
    static String number(double d) {
        if (Double.isNaN(d)) {
            return "nan";
        }
        if (Double.isInfinite(d)) {
            return d > 0 ? "inf" : "-inf";
        }
        if (d == 0) {
            return 1 / d < 0 ? "-0.0" : "0.0";
        }
        BigDecimal exact = new BigDecimal(Double.toString(Math.abs(d))).stripTrailingZeros();
        String digits = exact.unscaledValue().toString();
        int exponent = digits.length() - exact.scale() - 1;
        String sign = d < 0 ? "-" : "";
        if (exponent < -4 || exponent >= 16) {
            String mantissa = digits.length() == 1 ? digits : digits.charAt(0) + "." + digits.substring(1);
            return sign + mantissa + "e" + (exponent < 0 ? "-" : "+") + (Math.abs(exponent) < 10 ? "0" : "")
                    + Math.abs(exponent);
        }
        String plain = exact.toPlainString();
        return sign + plain + (plain.contains(".") ? "" : ".0");
    }

    private static String quoted(String s) {
        char quote = s.indexOf('\'') >= 0 && s.indexOf('"') < 0 ? '"' : '\'';
        StringBuilder b = new StringBuilder().append(quote);
        s.codePoints().forEach(c -> {
            switch (c) {
                case '\n' -> b.append("\\n");
                case '\r' -> b.append("\\r");
                case '\t' -> b.append("\\t");
                case '\\' -> b.append("\\\\");
                default -> {
                    if (c == quote) {
                        b.append('\\').append(quote);
                    } else if (isPrintable(c)) {
                        b.appendCodePoint(c);
                    } else {
                        String form = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
                        b.append(String.format(Locale.ROOT, form, c));
                    }
                }
            }
        });
        return b.append(quote).toString();
    }

    private static boolean isPrintable(int c) {
        return switch (Character.getType(c)) {
            case Character.CONTROL,
                    Character.FORMAT,
                    Character.SURROGATE,
                    Character.PRIVATE_USE,
                    Character.UNASSIGNED,
                    Character.LINE_SEPARATOR,
                    Character.PARAGRAPH_SEPARATOR -> false;
            case Character.SPACE_SEPARATOR -> c == ' ';
            default -> true;
        };
    }

    /** The name of a value's type, for messages. */
    static String type(@Nullable Object value) {
        return switch (value) {
            case null -> "None";
            case Boolean _ -> "bool";
            case Double _ -> "float";
            case String _ -> "str";
            case Tuple _ -> "tuple";
            case List<?> _ -> "list";
            case Map<?, ?> _ -> "dict";
            case Undefined u -> u.what() + " (undefined)";
            case Namespace _ -> "namespace";
            default -> Arithmetic.isInteger(value) ? "int" : "function";
        };
    }

    /** Whether {@code str.isspace} holds. */
    static boolean isSpace(int c) {
        return c == 0x85 || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f) || Character.isSpaceChar(c);
    }

    static String lstrip(String s) {
        int from = 0;
        while (from < s.length() && isSpace(s.charAt(from))) {
            from++;
        }
        return s.substring(from);
    }

    static String rstrip(String s) {
        int to = s.length();
        while (to > 0 && isSpace(s.charAt(to - 1))) {
            to--;
        }
        return s.substring(0, to);
    }

    static String strip(String s) {
        return lstrip(rstrip(s));
    }

    /** Strips characters of a set from the ends. */
    static String strip(String s, String characters, boolean left, boolean right) {
        int from = 0;
        int to = s.length();
        while (left && from < to && characters.indexOf(s.codePointAt(from)) >= 0) {
            from += Character.charCount(s.codePointAt(from));
        }
        while (right && to > from && characters.indexOf(s.codePointBefore(to)) >= 0) {
            to -= Character.charCount(s.codePointBefore(to));
        }
        return s.substring(from, to);
    }

    static int length(String s) {
        return s.codePointCount(0, s.length());
    }

    /** The characters of a string, as Python iterates over it. */
    static List<String> characters(String s) {
        List<String> characters = new ArrayList<>(s.length());
        s.codePoints().forEach(c -> characters.add(Character.toString(c)));
        return characters;
    }

    /** {@code text.capitalize()}. */
    static String capitalized(String s) {
        if (s.isEmpty()) {
            return s;
        }
        int first = s.offsetByCodePoints(0, 1);
        return Character.toString(Character.toTitleCase(s.codePointAt(0)))
                + s.substring(first).toLowerCase(Locale.ROOT);
    }

    /** {@code text % arguments} with the conversions s, r, d, i, f and x. */
    static String percent(String format, @Nullable Object arguments) {
        List<?> values = arguments instanceof Tuple t ? t : Arrays.asList(arguments);
        StringBuilder b = new StringBuilder();
        int used = 0;
        Matcher m = Pattern.compile("%(?:\\((\\w+)\\))?([-+ 0#]*)(\\d*)(?:\\.(\\d{1,3}))?([a-zA-Z%])")
                .matcher(format);
        int copied = 0;
        while (m.find()) {
            b.append(format.substring(copied, m.start()));
            copied = m.end();
            char kind = m.group(5).charAt(0);
            if (kind == '%') {
                b.append('%');
                continue;
            }
            Object value;
            if (m.group(1) != null && arguments instanceof Map<?, ?> map) {
                value = map.get(m.group(1));
            } else if (used < values.size()) {
                value = values.get(used++);
            } else {
                throw new JinjaException("not enough arguments for the format string");
            }
            b.append(padded(converted(kind, m.group(4), value), m.group(2), m.group(3)));
        }
        if (used < values.size() && !(arguments instanceof Map)) {
            throw new JinjaException("not all arguments converted during string formatting");
        }
        return b.append(format.substring(copied)).toString();
    }

    private static String converted(char kind, @Nullable String precision, @Nullable Object value) {
        return switch (kind) {
            case 's', 'r' -> {
                String text = kind == 's' ? of(value) : repr(value);
                yield precision == null
                        ? text
                        : text.substring(
                                0, text.offsetByCodePoints(0, Math.min(length(text), Integer.parseInt(precision))));
            }
            case 'd', 'i' ->
                value instanceof Double d
                        ? new BigDecimal(d).toBigInteger().toString()
                        : Arithmetic.big(value).toString();
            case 'f' -> {
                int digits = precision == null ? 6 : Integer.parseInt(precision);
                yield new BigDecimal(Arithmetic.number(value))
                        .setScale(digits, RoundingMode.HALF_EVEN)
                        .toPlainString();
            }
            case 'x' -> Arithmetic.big(value).toString(16);
            default -> throw new JinjaException("unsupported format character '" + kind + "'");
        };
    }

    private static String padded(String text, String flags, String width) {
        String signed = flags.contains("+") && !text.startsWith("-") ? "+" + text : text;
        int missing = width.isEmpty()
                ? 0
                : Math.min(10_000, Integer.parseInt(width.substring(0, Math.min(5, width.length())))) - length(signed);
        if (missing <= 0) {
            return signed;
        }
        if (flags.contains("-")) {
            return signed + " ".repeat(missing);
        }
        if (flags.contains("0")) {
            boolean sign = signed.startsWith("-") || signed.startsWith("+");
            return (sign ? signed.substring(0, 1) : "") + "0".repeat(missing) + (sign ? signed.substring(1) : signed);
        }
        return " ".repeat(missing) + signed;
    }
}
