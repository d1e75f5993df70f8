package dev.octet.converter.jinja;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;

/** Methods of Python's str, dict and list that the immutable sandbox allows. */
final class Methods {
    private static final Set<String> CHANGING_LIST =
            Set.of("append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort");
    private static final Set<String> CHANGING_MAP = Set.of("clear", "pop", "popitem", "setdefault", "update");

    private static final Set<String> TEXT = Set.of(
            "strip",
            "lstrip",
            "rstrip",
            "split",
            "rsplit",
            "splitlines",
            "startswith",
            "endswith",
            "replace",
            "upper",
            "lower",
            "title",
            "capitalize",
            "casefold",
            "swapcase",
            "join",
            "find",
            "rfind",
            "index",
            "rindex",
            "count",
            "format",
            "isdigit",
            "isdecimal",
            "isnumeric",
            "isalpha",
            "isalnum",
            "isspace",
            "islower",
            "isupper",
            "zfill",
            "removeprefix",
            "removesuffix",
            "partition",
            "rpartition",
            "ljust",
            "rjust",
            "center");

    private static final Set<String> MAP = Set.of("items", "keys", "values", "get", "copy");
    private static final Set<String> LIST = Set.of("index", "count", "copy");

    private Methods() {}

    /** A method of a value; empty when it has none of this name. */
    static Optional<Callee> of(@Nullable Object value, String name) {
        boolean list = value instanceof List && !(value instanceof Tuple);
        if ((list && CHANGING_LIST.contains(name)) || (value instanceof Map && CHANGING_MAP.contains(name))) {
            return Optional.of((_, _) -> {
                throw new JinjaException(
                        "'" + name + "' would change a " + PythonText.type(value) + ", which templates cannot");
            });
        }
        return switch (value) {
            case String s when TEXT.contains(name) -> Optional.of((p, n) -> text(s, name, new Given(name, p, n)));
            case Map<?, ?> m when MAP.contains(name) -> Optional.of((p, n) -> map(m, name, new Given(name, p, n)));
            case List<?> l when LIST.contains(name) -> Optional.of((p, n) -> list(l, name, new Given(name, p, n)));
            case null, default -> Optional.empty();
        };
    }

    private static @Nullable Object map(Map<?, ?> map, String name, Given given) {
        return switch (name) {
            case "items" -> items(map);
            case "keys" -> new ArrayList<@Nullable Object>(map.keySet());
            case "values" -> new ArrayList<@Nullable Object>(map.values());
            case "copy" -> map;
            default -> {
                Object key = given.of("key", "default").required(0, "key");
                yield map.containsKey(key) ? map.get(key) : given.get(1, "default", null);
            }
        };
    }

    static List<@Nullable Object> items(Map<?, ?> map) {
        List<@Nullable Object> items = new ArrayList<>(map.size());
        for (Map.Entry<?, ?> e : map.entrySet()) {
            List<@Nullable Object> pair = new ArrayList<>(2);
            pair.add(e.getKey());
            pair.add(e.getValue());
            items.add(new Tuple(pair));
        }
        return items;
    }

    private static Object list(List<?> list, String name, Given given) {
        return switch (name) {
            case "copy" -> list;
            case "count" -> {
                Object wanted = given.of("value").required(0, "value");
                yield list.stream().filter(e -> PythonValues.equal(e, wanted)).count();
            }
            default -> {
                Object wanted = given.of("value").required(0, "value");
                for (int i = 0; i < list.size(); i++) {
                    if (PythonValues.equal(list.get(i), wanted)) {
                        yield (long) i;
                    }
                }
                throw new JinjaException(PythonText.repr(wanted) + " is not in the list");
            }
        };
    }

    private static Object text(String s, String name, Given g) {
        return switch (name) {
            case "strip" -> stripped(s, g, true, true);
            case "lstrip" -> stripped(s, g, true, false);
            case "rstrip" -> stripped(s, g, false, true);
            case "split" -> split(s, g, false);
            case "rsplit" -> split(s, g, true);
            case "splitlines" -> lines(s, g.of("keepends").flag(0, "keepends", false));
            case "startswith" -> affixed(s, g.of("prefix").required(0, "prefix"), true);
            case "endswith" -> affixed(s, g.of("suffix").required(0, "suffix"), false);
            case "replace" -> {
                g.of("old", "new", "count");
                yield replaced(s, g.text(0, "old"), g.text(1, "new"), g.whole(2, "count", -1));
            }
            case "upper" -> s.toUpperCase(Locale.ROOT);
            case "lower", "casefold" -> s.toLowerCase(Locale.ROOT);
            case "title" -> title(s);
            case "capitalize" -> PythonText.capitalized(s);
            case "swapcase" -> swapped(s);
            case "join" -> {
                StringBuilder b = new StringBuilder();
                String between = "";
                for (Object part : PythonValues.elements(g.of("iterable").required(0, "iterable"))) {
                    if (!(part instanceof String text)) {
                        throw new JinjaException("join: expected str, found " + PythonText.type(part));
                    }
                    b.append(between).append(text);
                    between = s;
                }
                yield b.toString();
            }
            case "find", "rfind", "index", "rindex" -> {
                String part = g.of("sub").text(0, "sub");
                int at = name.startsWith("r") ? s.lastIndexOf(part) : s.indexOf(part);
                if (at < 0 && name.endsWith("index")) {
                    throw new JinjaException("substring not found");
                }
                yield at < 0 ? -1L : (long) s.codePointCount(0, at);
            }
            case "count" -> {
                String part = g.of("sub").text(0, "sub");
                long n = part.isEmpty() ? PythonText.length(s) + 1L : 0;
                for (int at = s.indexOf(part); !part.isEmpty() && at >= 0; at = s.indexOf(part, at + part.length())) {
                    n++;
                }
                yield n;
            }
            case "format" -> formatted(s, g);
            case "isdigit", "isdecimal", "isnumeric" -> all(s, Character::isDigit);
            case "isalpha" -> all(s, Character::isLetter);
            case "isalnum" -> all(s, Character::isLetterOrDigit);
            case "isspace" -> all(s, PythonText::isSpace);
            case "islower" ->
                s.equals(s.toLowerCase(Locale.ROOT)) && s.codePoints().anyMatch(Character::isLowerCase);
            case "isupper" ->
                s.equals(s.toUpperCase(Locale.ROOT)) && s.codePoints().anyMatch(Character::isUpperCase);
            case "zfill" -> {
                int missing = width(g) - PythonText.length(s);
                boolean sign = s.startsWith("-") || s.startsWith("+");
                yield missing <= 0
                        ? s
                        : (sign ? s.substring(0, 1) : "") + "0".repeat(missing) + (sign ? s.substring(1) : s);
            }
            case "removeprefix" -> {
                String prefix = g.of("prefix").text(0, "prefix");
                yield s.startsWith(prefix) ? s.substring(prefix.length()) : s;
            }
            case "removesuffix" -> {
                String suffix = g.of("suffix").text(0, "suffix");
                yield s.endsWith(suffix) ? s.substring(0, s.length() - suffix.length()) : s;
            }
            case "partition", "rpartition" -> {
                String separator = g.of("sep").text(0, "sep");
                boolean last = name.startsWith("r");
                int at = last ? s.lastIndexOf(separator) : s.indexOf(separator);
                yield at < 0
                        ? new Tuple(last ? List.of("", "", s) : List.of(s, "", ""))
                        : new Tuple(List.of(s.substring(0, at), separator, s.substring(at + separator.length())));
            }
            case "ljust" -> s + " ".repeat(Math.max(0, width(g) - PythonText.length(s)));
            case "rjust" -> " ".repeat(Math.max(0, width(g) - PythonText.length(s))) + s;
            default -> centred(s, width(g));
        };
    }

    private static int width(Given g) {
        int width = Arithmetic.index(g.of("width").required(0, "width"));
        if (width > 1 << 20) {
            throw new JinjaException("a width of " + width + " is too large");
        }
        return width;
    }

    static String centred(String s, int width) {
        int missing = Math.max(0, width - PythonText.length(s));
        int left = missing / 2 + (missing & width & 1);
        return " ".repeat(left) + s + " ".repeat(missing - left);
    }

    private static String stripped(String s, Given given, boolean left, boolean right) {
        Object characters = given.of("chars").get(0, "chars", null);
        if (characters == null) {
            return left && right ? PythonText.strip(s) : left ? PythonText.lstrip(s) : PythonText.rstrip(s);
        }
        return PythonText.strip(s, given.text(0, "chars"), left, right);
    }

    private static boolean affixed(String s, @Nullable Object affix, boolean front) {
        if (affix instanceof Tuple t) {
            return t.stream().anyMatch(a -> affixed(s, a, front));
        }
        if (affix instanceof Undefined u) {
            throw u.error();
        }
        if (!(affix instanceof String part)) {
            throw new JinjaException("a string cannot begin or end with " + PythonText.type(affix));
        }
        return front ? s.startsWith(part) : s.endsWith(part);
    }

    static String replaced(String s, String old, String by, int count) {
        if (count < 0) {
            if (old.isEmpty()) {
                count = Integer.MAX_VALUE;
            } else {
                return s.replace(old, by);
            }
        }
        StringBuilder b = new StringBuilder();
        int from = 0;
        int done = 0;
        if (old.isEmpty()) {
            for (String c : PythonText.characters(s)) {
                b.append(done++ < count ? by : "").append(c);
            }
            return b.append(done < count ? by : "").toString();
        }
        for (int at = s.indexOf(old); at >= 0 && done < count; at = s.indexOf(old, from)) {
            b.append(s, from, at).append(by);
            from = at + old.length();
            done++;
        }
        return b.append(s.substring(from)).toString();
    }

    private static List<@Nullable Object> split(String s, Given given, boolean fromRight) {
        given.of("sep", "maxsplit");
        Object separator = given.get(0, "sep", null);
        int most = given.whole(1, "maxsplit", -1);
        most = most < 0 ? Integer.MAX_VALUE : most;
        List<@Nullable Object> parts = new ArrayList<>();
        if (separator != null) {
            String by = given.text(0, "sep");
            if (by.isEmpty()) {
                throw new JinjaException("split: empty separator");
            }
            if (fromRight) {
                int to = s.length();
                for (int at = s.lastIndexOf(by);
                        at >= 0 && parts.size() < most && to >= 0;
                        at = s.lastIndexOf(by, at - by.length())) {
                    parts.addFirst(s.substring(at + by.length(), to));
                    to = at;
                    if (at - by.length() < 0) {
                        break;
                    }
                }
                parts.addFirst(s.substring(0, to));
                return parts;
            }
            int from = 0;
            for (int at = s.indexOf(by); at >= 0 && parts.size() < most; at = s.indexOf(by, from)) {
                parts.add(s.substring(from, at));
                from = at + by.length();
            }
            parts.add(s.substring(from));
            return parts;
        }
        String rest = fromRight ? PythonText.rstrip(s) : PythonText.lstrip(s);
        while (!rest.isEmpty()) {
            if (parts.size() == most) {
                if (fromRight) {
                    parts.addFirst(rest);
                } else {
                    parts.add(rest);
                }
                return parts;
            }
            int at = fromRight ? rest.length() : 0;
            while (fromRight
                    ? at > 0 && !PythonText.isSpace(rest.charAt(at - 1))
                    : at < rest.length() && !PythonText.isSpace(rest.charAt(at))) {
                at += fromRight ? -1 : 1;
            }
            if (fromRight) {
                parts.addFirst(rest.substring(at));
                rest = PythonText.rstrip(rest.substring(0, at));
            } else {
                parts.add(rest.substring(0, at));
                rest = PythonText.lstrip(rest.substring(at));
            }
        }
        return parts;
    }

    private static List<@Nullable Object> lines(String s, boolean keepEnds) {
        List<@Nullable Object> lines = new ArrayList<>();
        int from = 0;
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            boolean end =
                    (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
            if (end) {
                int next = c == '\r' && i + 1 < s.length() && s.charAt(i + 1) == '\n' ? i + 2 : i + 1;
                lines.add(s.substring(from, keepEnds ? next : i));
                from = next;
                i = next - 1;
            }
        }
        if (from < s.length()) {
            lines.add(s.substring(from));
        }
        return lines;
    }

    static String title(String s) {
        StringBuilder b = new StringBuilder();
        boolean[] inWord = {false};
        s.codePoints().forEach(c -> {
            b.appendCodePoint(inWord[0] ? Character.toLowerCase(c) : Character.toTitleCase(c));
            inWord[0] = Character.isLetter(c);
        });
        return b.toString();
    }

    private static String swapped(String s) {
        StringBuilder b = new StringBuilder();
        s.codePoints()
                .forEach(c -> b.appendCodePoint(
                        Character.isUpperCase(c) ? Character.toLowerCase(c) : Character.toUpperCase(c)));
        return b.toString();
    }

    private static boolean all(String s, IntPredicate predicate) {
        return !s.isEmpty() && s.codePoints().allMatch(predicate);
    }

    /** {@code str.format} with fields by place or name, without format specifications. */
    private static String formatted(String s, Given given) {
        StringBuilder b = new StringBuilder();
        int automatic = 0;
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            boolean twice = i + 1 < s.length() && s.charAt(i + 1) == c;
            if ((c == '{' || c == '}') && twice) {
                b.append(c);
                i++;
            } else if (c == '{') {
                int end = s.indexOf('}', i);
                String field = end < 0 ? "!" : s.substring(i + 1, end);
                if (!field.matches("\\w*")) {
                    throw new JinjaException("format: '{" + field + "' is beyond what templates of chats need");
                }
                boolean place = field.matches("\\d{0,4}");
                int at = field.isEmpty() ? automatic++ : place ? Integer.parseInt(field) : 0;
                b.append(PythonText.of(
                        place
                                ? at < given.positional().size()
                                        ? given.positional().get(at)
                                        : given.required(at, field)
                                : given.required(Integer.MAX_VALUE, field)));
                i = end;
            } else {
                b.append(c);
            }
        }
        return b.toString();
    }
}
