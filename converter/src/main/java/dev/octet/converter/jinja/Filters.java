package dev.octet.converter.jinja;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Filters of Jinja, with transformers' {@code tojson}. */
final class Filters {
    private static final Set<String> NAMES = Set.of(
            "abs",
            "attr",
            "batch",
            "capitalize",
            "center",
            "count",
            "d",
            "default",
            "dictsort",
            "e",
            "escape",
            "first",
            "float",
            "format",
            "groupby",
            "indent",
            "int",
            "items",
            "join",
            "last",
            "length",
            "list",
            "lower",
            "map",
            "max",
            "min",
            "reject",
            "rejectattr",
            "replace",
            "reverse",
            "round",
            "safe",
            "select",
            "selectattr",
            "slice",
            "sort",
            "string",
            "sum",
            "title",
            "tojson",
            "trim",
            "truncate",
            "unique",
            "upper",
            "urlencode",
            "wordcount");

    private static final int MAX_INDENT = 1024;
    private static final Pattern WORD = Pattern.compile("[\\p{L}\\p{N}_]+");

    private Filters() {}

    static boolean has(String name) {
        return NAMES.contains(name);
    }

    static @Nullable Object apply(@Nullable Object value, Given g) {
        return switch (g.what()) {
            case "abs" ->
                Arithmetic.isNumber(value) && Arithmetic.number(value) < 0 ? Arithmetic.negated(value) : value;
            case "attr" -> attribute(value, g.of("name").text(0, "name"));
            case "batch" -> batches(value, g.of("linecount", "fill_with"));
            case "capitalize" -> PythonText.capitalized(PythonText.of(value));
            case "center" ->
                Methods.centred(
                        PythonText.of(value), Math.min(1 << 20, g.of("width").whole(0, "width", 80)));
            case "count", "length" -> PythonValues.length(value);
            case "d", "default" -> {
                g.of("default_value", "boolean");
                boolean missing =
                        value instanceof Undefined || (g.flag(1, "boolean", false) && !PythonValues.truth(value));
                yield missing ? g.get(0, "default_value", "") : value;
            }
            case "dictsort" -> dictSort(value, g.of("case_sensitive", "by", "reverse"));
            case "e", "escape" ->
                PythonText.of(value)
                        .replace("&", "&amp;")
                        .replace("<", "&lt;")
                        .replace(">", "&gt;")
                        .replace("'", "&#39;")
                        .replace("\"", "&#34;");
            case "first" -> {
                List<@Nullable Object> all = PythonValues.elements(value);
                yield all.isEmpty() ? new Undefined("the first element of an empty sequence") : all.getFirst();
            }
            case "last" -> {
                List<@Nullable Object> all = PythonValues.elements(value);
                yield all.isEmpty() ? new Undefined("the last element of an empty sequence") : all.getLast();
            }
            case "float" -> toFloat(value, g.of("default"));
            case "int" -> toInteger(value, g.of("default", "base"));
            case "format" ->
                PythonText.percent(PythonText.of(value), g.named().isEmpty() ? new Tuple(g.positional()) : g.named());
            case "groupby" -> groups(value, g.of("attribute", "default", "case_sensitive"));
            case "indent" -> indented(PythonText.of(value), g.of("width", "first", "blank"));
            case "items" -> value instanceof Undefined ? List.of() : Methods.items(map(value));
            case "join" -> joined(value, g.of("d", "attribute"));
            case "list" -> PythonValues.elements(value);
            case "lower" -> PythonText.of(value).toLowerCase(Locale.ROOT);
            case "upper" -> PythonText.of(value).toUpperCase(Locale.ROOT);
            case "map" -> mapped(value, g);
            case "max", "min" ->
                extreme(value, g.of("case_sensitive", "attribute"), g.what().equals("max"));
            case "select", "reject" -> selected(value, g, g.what().equals("select"), false);
            case "selectattr", "rejectattr" -> selected(value, g, g.what().equals("selectattr"), true);
            case "replace" -> {
                g.of("old", "new", "count");
                yield Methods.replaced(
                        PythonText.of(value),
                        PythonText.of(g.required(0, "old")),
                        PythonText.of(g.required(1, "new")),
                        g.get(2, "count", null) == null ? -1 : g.whole(2, "count", -1));
            }
            case "reverse" -> {
                if (value instanceof String s) {
                    yield new StringBuilder(s).reverse().toString();
                }
                List<@Nullable Object> all = PythonValues.elements(value);
                Collections.reverse(all);
                yield all;
            }
            case "round" -> rounded(value, g.of("precision", "method"));
            case "safe", "string" -> PythonText.of(value);
            case "slice" -> slices(value, g.of("slices", "fill_with"));
            case "sort" -> sorted(value, g.of("reverse", "case_sensitive", "attribute"));
            case "sum" -> {
                g.of("attribute", "start");
                Object sum = g.get(1, "start", 0L);
                for (Object e : PythonValues.elements(value)) {
                    sum = Arithmetic.binary("+", sum, by(e, g.get(0, "attribute", null)));
                }
                yield sum;
            }
            case "title" -> Methods.title(PythonText.of(value));
            case "tojson" -> json(value, g.of("ensure_ascii", "indent", "separators", "sort_keys"));
            case "trim" -> {
                Object characters = g.of("chars").get(0, "chars", null);
                String text = PythonText.of(value);
                yield characters == null
                        ? PythonText.strip(text)
                        : PythonText.strip(text, g.text(0, "chars"), true, true);
            }
            case "truncate" -> truncated(PythonText.of(value), g.of("length", "killwords", "end", "leeway"));
            case "unique" -> unique(value, g.of("case_sensitive", "attribute"));
            case "urlencode" ->
                URLEncoder.encode(PythonText.of(value), StandardCharsets.UTF_8)
                        .replace("+", "%20")
                        .replace("%2F", "/")
                        .replace("%7E", "~")
                        .replace("*", "%2A");
            case "wordcount" -> WORD.matcher(PythonText.of(value)).results().count();
            default -> throw new JinjaException("there is no filter '" + g.what() + "'");
        };
    }

    private static Map<?, ?> map(@Nullable Object value) {
        if (value instanceof Map<?, ?> m) {
            return m;
        }
        throw new JinjaException("expected a dict, found " + PythonText.type(value));
    }

    private static Object attribute(@Nullable Object value, String name) {
        return Methods.of(value, name).<Object>map(m -> m).orElseGet(() -> PythonValues.missing(value, name));
    }

    /** A value's attribute, dotted, as filters name them; the value itself without a name. */
    private static @Nullable Object by(@Nullable Object value, @Nullable Object attribute) {
        if (attribute == null) {
            return value;
        }
        if (Arithmetic.isInteger(attribute)) {
            return PythonValues.item(value, attribute);
        }
        Object found = value;
        for (String part : PythonText.of(attribute).split("\\.", -1)) {
            boolean index = !part.isEmpty() && part.chars().allMatch(Character::isDigit) && part.length() < 10;
            found = PythonValues.item(found, index ? Long.valueOf(part) : part);
        }
        return found;
    }

    private static Object toFloat(@Nullable Object value, Given g) {
        if (Arithmetic.isNumber(value)) {
            return Arithmetic.number(value);
        }
        try {
            return value instanceof String s ? Double.parseDouble(PythonText.strip(s)) : fallback(g, 0.0);
        } catch (NumberFormatException _) {
            return fallback(g, 0.0);
        }
    }

    private static Object fallback(Given g, Object otherwise) {
        Object value = g.get(0, "default", otherwise);
        return value == null ? otherwise : value;
    }

    private static Object toInteger(@Nullable Object value, Given g) {
        if (value instanceof Double d) {
            return Double.isFinite(d) ? Arithmetic.integer(new BigDecimal(d).toBigInteger()) : fallback(g, 0L);
        }
        if (Arithmetic.isInteger(value)) {
            return Arithmetic.integer(Arithmetic.big(value));
        }
        if (!(value instanceof String s) || s.length() > 1000) {
            return fallback(g, 0L);
        }
        String text = PythonText.strip(s).replace("_", "");
        try {
            return Arithmetic.integer(new BigInteger(text, g.whole(1, "base", 10)));
        } catch (NumberFormatException _) {
            try {
                double d = Double.parseDouble(text);
                return Double.isFinite(d) ? Arithmetic.integer(new BigDecimal(d).toBigInteger()) : fallback(g, 0L);
            } catch (NumberFormatException _) {
                return fallback(g, 0L);
            }
        }
    }

    private static Object rounded(@Nullable Object value, Given g) {
        int precision = Math.clamp(g.whole(0, "precision", 0), -400, 400);
        double x = Arithmetic.number(value);
        RoundingMode mode = switch (g.text(1, "method", "common")) {
            case "common" -> RoundingMode.HALF_EVEN;
            case "ceil" -> RoundingMode.CEILING;
            case "floor" -> RoundingMode.FLOOR;
            default -> throw new JinjaException("round: method is common, ceil or floor");
        };
        boolean whole = Arithmetic.isInteger(value) && mode == RoundingMode.HALF_EVEN;
        if (!Double.isFinite(x) || (whole && precision >= 0)) {
            return whole ? Arithmetic.integer(Arithmetic.big(value)) : x;
        }
        BigDecimal r = new BigDecimal(x).setScale(precision, mode);
        return whole ? Arithmetic.integer(r.toBigInteger()) : (Object) r.doubleValue();
    }

    private static String indented(String s, Given g) {
        Object width = g.get(0, "width", 4L);
        String by = width instanceof String w ? w : " ".repeat(Math.clamp(Arithmetic.index(width), 0, MAX_INDENT));
        boolean first = g.flag(1, "first", false);
        boolean blank = g.flag(2, "blank", false);
        String[] lines = (s + "\n").split("\n", -1);
        StringBuilder b = new StringBuilder();
        int n = lines.length - 1;
        for (int i = 0; i < n; i++) {
            boolean indents = i == 0 ? first : blank || !lines[i].isEmpty();
            b.append(i == 0 ? "" : "\n").append(indents ? by : "").append(lines[i]);
        }
        return b.toString();
    }

    private static String joined(@Nullable Object value, Given g) {
        String between = PythonText.of(g.get(0, "d", ""));
        StringBuilder b = new StringBuilder();
        String next = "";
        for (Object e : PythonValues.elements(value)) {
            b.append(next).append(PythonText.of(by(e, g.get(1, "attribute", null))));
            next = between;
        }
        return b.toString();
    }

    private static List<@Nullable Object> mapped(@Nullable Object value, Given g) {
        List<@Nullable Object> mapped = new ArrayList<>();
        boolean attribute = g.positional().isEmpty();
        for (Object e : PythonValues.elements(value)) {
            if (attribute) {
                Object found = by(e, g.required(0, "attribute"));
                mapped.add(found instanceof Undefined && g.has(1, "default") ? g.get(1, "default", null) : found);
            } else {
                String filter = PythonText.of(g.positional().getFirst());
                mapped.add(apply(
                        e,
                        new Given(
                                filter, g.positional().subList(1, g.positional().size()), g.named())));
            }
        }
        return mapped;
    }

    private static List<@Nullable Object> selected(@Nullable Object value, Given g, boolean keeps, boolean attribute) {
        List<@Nullable Object> selected = new ArrayList<>();
        int used = attribute ? 1 : 0;
        for (Object e : PythonValues.elements(value)) {
            Object tested = attribute ? by(e, g.required(0, "attribute")) : e;
            boolean holds;
            if (g.positional().size() > used) {
                String test = PythonText.of(g.positional().get(used));
                if (!Tests.has(test)) {
                    throw new JinjaException("there is no test '" + test + "'");
                }
                holds = Tests.holds(
                        tested,
                        new Given(
                                test,
                                g.positional().subList(used + 1, g.positional().size()),
                                Map.of()));
            } else {
                holds = PythonValues.truth(tested);
            }
            if (holds == keeps) {
                selected.add(e);
            }
        }
        return selected;
    }

    private static Comparator<@Nullable Object> order(boolean caseSensitive, @Nullable Object attribute) {
        return (a, b) ->
                PythonValues.compare(folded(by(a, attribute), caseSensitive), folded(by(b, attribute), caseSensitive));
    }

    private static @Nullable Object folded(@Nullable Object value, boolean caseSensitive) {
        return value instanceof String s && !caseSensitive ? s.toLowerCase(Locale.ROOT) : value;
    }

    private static List<@Nullable Object> sorted(@Nullable Object value, Given g) {
        List<@Nullable Object> all = PythonValues.elements(value);
        Comparator<@Nullable Object> order = order(g.flag(1, "case_sensitive", false), g.get(2, "attribute", null));
        all.sort(g.flag(0, "reverse", false) ? order.reversed() : order);
        return all;
    }

    private static List<@Nullable Object> dictSort(@Nullable Object value, Given g) {
        List<@Nullable Object> items = Methods.items(map(value));
        Object place = g.text(1, "by", "key").equals("key") ? 0L : 1L;
        Comparator<@Nullable Object> order = order(g.flag(0, "case_sensitive", false), place);
        items.sort(g.flag(2, "reverse", false) ? order.reversed() : order);
        return items;
    }

    private static @Nullable Object extreme(@Nullable Object value, Given g, boolean largest) {
        Comparator<@Nullable Object> order = order(g.flag(0, "case_sensitive", false), g.get(1, "attribute", null));
        List<@Nullable Object> all = PythonValues.elements(value);
        if (all.isEmpty()) {
            return new Undefined("the extreme of an empty sequence");
        }
        Object best = all.getFirst();
        for (Object e : all) {
            int c = order.compare(e, best);
            best = (largest ? c == 1 : c == -1) ? e : best;
        }
        return best;
    }

    private static List<@Nullable Object> unique(@Nullable Object value, Given g) {
        boolean caseSensitive = g.flag(0, "case_sensitive", false);
        List<@Nullable Object> seen = new ArrayList<>();
        List<@Nullable Object> unique = new ArrayList<>();
        for (Object e : PythonValues.elements(value)) {
            Object key = folded(by(e, g.get(1, "attribute", null)), caseSensitive);
            if (!PythonValues.contains(seen, key)) {
                seen.add(key);
                unique.add(e);
            }
        }
        return unique;
    }

    private static List<@Nullable Object> groups(@Nullable Object value, Given g) {
        Object attribute = g.required(0, "attribute");
        Map<@Nullable Object, List<@Nullable Object>> groups = new LinkedHashMap<>();
        List<@Nullable Object> all = PythonValues.elements(value);
        all.sort(order(g.flag(2, "case_sensitive", false), attribute));
        for (Object e : all) {
            groups.computeIfAbsent(by(e, attribute), _ -> new ArrayList<>()).add(e);
        }
        return Methods.items(groups);
    }

    private static List<@Nullable Object> batches(@Nullable Object value, Given g) {
        int size = Math.max(1, Arithmetic.index(g.required(0, "linecount")));
        List<@Nullable Object> batches = new ArrayList<>();
        List<@Nullable Object> batch = new ArrayList<>();
        for (Object e : PythonValues.elements(value)) {
            if (batch.size() == size) {
                batches.add(batch);
                batch = new ArrayList<>();
            }
            batch.add(e);
        }
        if (!batch.isEmpty()) {
            Object fill = g.get(1, "fill_with", null);
            while (fill != null && batch.size() < Math.min(size, 1 << 16)) {
                batch.add(fill);
            }
            batches.add(batch);
        }
        return batches;
    }

    private static List<@Nullable Object> slices(@Nullable Object value, Given g) {
        int n = Math.clamp(Arithmetic.index(g.required(0, "slices")), 1, 1 << 16);
        List<@Nullable Object> all = PythonValues.elements(value);
        List<@Nullable Object> slices = new ArrayList<>();
        int each = all.size() / n;
        int longer = all.size() % n;
        int at = 0;
        for (int i = 0; i < n; i++) {
            int end = at + each + (i < longer ? 1 : 0);
            List<@Nullable Object> slice = new ArrayList<>(all.subList(at, end));
            Object fill = g.get(1, "fill_with", null);
            if (fill != null && i >= longer) {
                slice.add(fill);
            }
            slices.add(slice);
            at = end;
        }
        return slices;
    }

    private static String truncated(String s, Given g) {
        int length = g.whole(0, "length", 255);
        String end = g.text(2, "end", "...");
        int leeway = g.whole(3, "leeway", 5);
        if (PythonText.length(s) <= (long) length + leeway) {
            return s;
        }
        int kept = Math.max(0, length - PythonText.length(end));
        String cut = s.substring(0, s.offsetByCodePoints(0, kept));
        if (!g.flag(1, "killwords", false)) {
            int space = cut.lastIndexOf(' ');
            cut = space < 0 ? cut : cut.substring(0, space);
        }
        return cut + end;
    }

    private static String json(@Nullable Object value, Given g) {
        Object indent = g.get(1, "indent", null);
        String by = indent == null
                ? null
                : indent instanceof String s ? s : " ".repeat(Math.clamp(Arithmetic.index(indent), 0, MAX_INDENT));
        String item = by == null ? ", " : ",";
        String key = ": ";
        if (g.get(2, "separators", null) instanceof List<?> pair && pair.size() == 2) {
            item = PythonText.of(pair.get(0));
            key = PythonText.of(pair.get(1));
        }
        return new JsonText(g.flag(0, "ensure_ascii", false), by, item, key, g.flag(3, "sort_keys", false)).of(value);
    }
}
