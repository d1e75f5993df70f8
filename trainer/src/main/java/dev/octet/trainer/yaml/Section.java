package dev.octet.trainer.yaml;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.Nearest;
import dev.octet.formats.tensor.FloatName;
import dev.octet.quant.recipe.RecipeFields;
import dev.octet.trainer.yaml.Entry.Scalar;
import dev.octet.trainer.yaml.Entry.Sequence;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * A mapping of a YAML file. The reader gets every key it supports once; {@link #end} then rejects the other keys and suggests the nearest
 * supported name. Getters throw {@link InvalidOptionException} with file, line and key.
 */
public final class Section implements Entry, RecipeFields {
    private final String file;
    private final String path;
    private final int line;
    private final Map<String, Entry> entries;
    private final Map<String, Integer> lines;
    /** Where keys were written that are not from the file. */
    private final Map<String, String> origins;

    private final TreeSet<String> asked = new TreeSet<>();

    /**
     * A key with a value.
     *
     * @param key dotted, from the top of the file: {@code optimizer.lr}
     * @param name as written, in which a dot is a letter like others: {@code lr}
     * @param value as written; of a list or mapping all of it
     * @param kind what the file's grammar takes the value for
     * @param line of the key, from 1
     * @param where for messages
     */
    public record Written(String key, String name, String value, Kind kind, int line, String where) {}

    /** What the grammar of a file takes a value for. */
    public enum Kind {
        TEXT,
        NUMBER,
        FLAG,
        NULL,
        LIST,
        MAPPING
    }

    Section(String file, String path, int line, Map<String, Entry> entries, Map<String, Integer> lines) {
        this(file, path, line, entries, lines, Map.of());
    }

    private Section(
            String file,
            String path,
            int line,
            Map<String, Entry> entries,
            Map<String, Integer> lines,
            Map<String, String> origins) {
        this.origins = new LinkedHashMap<>(origins);
        this.file = file;
        this.path = path;
        this.line = line;
        this.entries = new LinkedHashMap<>(entries);
        this.lines = new LinkedHashMap<>(lines);
    }

    @Override
    public int line() {
        return line;
    }

    /** Whether the key has a value other than null. */
    public boolean has(String key) {
        asked.add(key);
        Entry e = entries.get(key);
        return e != null && !(e instanceof Scalar s && s.isNull());
    }

    /** Whether the key is written, without marking it as supported. */
    public boolean isWritten(String key) {
        return entries.containsKey(key);
    }

    /** Text value of a key. */
    public Optional<String> text(String key) {
        return scalar(key).map(Scalar::text);
    }

    /** Text value of a required key. */
    public String requiredText(String key) {
        return text(key).orElseThrow(() -> missing(key));
    }

    /** Path value of a key, empty if the key is missing; relative paths are resolved against {@code folder}. */
    public Optional<Path> path(String key, Path folder) {
        return text(key).map(text -> {
            try {
                return folder.resolve(text);
            } catch (InvalidPathException e) {
                throw broken(key, "'" + text + "' is not a path", "use a name this system allows", e);
            }
        });
    }

    /** Path value of a required key. */
    public Path requiredPath(String key, Path folder) {
        return path(key, folder).orElseThrow(() -> missing(key));
    }

    /** A whole number from {@code min} to {@code max}. */
    @Override
    public long whole(String key, long fallback, long min, long max) {
        Optional<Scalar> scalar = scalar(key);
        if (scalar.isEmpty()) {
            return fallback;
        }
        try {
            long value = Long.parseLong(scalar.get().text().replace("_", ""));
            if (value >= min && value <= max) {
                return value;
            }
        } catch (NumberFormatException e) {
            throw broken(key, "'" + scalar.get().text() + "' is not a whole number", range(min, max), e);
        }
        throw broken(key, scalar.get().text() + " is out of range", range(min, max), null);
    }

    /** A required whole number. */
    public long requiredWhole(String key, long min, long max) {
        if (!has(key)) {
            throw missing(key);
        }
        return whole(key, min, min, max);
    }

    private static String range(long min, long max) {
        return "give a whole number " + (max == Long.MAX_VALUE ? "of at least " + min : "from " + min + " to " + max);
    }

    /** A finite number from {@code min} to {@code max}. */
    @Override
    public double number(String key, double fallback, double min, double max) {
        return optionalNumber(key, min, max).orElse(fallback);
    }

    /** A finite number from {@code min} to {@code max}; empty if the key is missing. */
    public Optional<Double> optionalNumber(String key, double min, double max) {
        return scalar(key).map(s -> number(key, s, min, max));
    }

    private double number(String key, Scalar scalar, double min, double max) {
        String fix = "give a number " + range(min, max);
        try {
            double value = Double.parseDouble(scalar.text());
            if (value >= min && value <= max) {
                return value;
            }
        } catch (NumberFormatException e) {
            throw broken(key, "'" + scalar.text() + "' is not a number", fix, e);
        }
        throw broken(key, scalar.text() + " is out of range", fix, null);
    }

    private static String range(double min, double max) {
        String low = min == Double.MIN_VALUE ? "above 0" : "of at least " + plain(min);
        if (max == Double.MAX_VALUE) {
            return low;
        }
        return low + (max == Math.nextDown(1.0) ? ", below 1" : ", at most " + plain(max));
    }

    private static String plain(double x) {
        return x == Math.rint(x) && Math.abs(x) < 1e9 ? String.valueOf((long) x) : String.valueOf(x);
    }

    /** A list of exactly {@code count} numbers. */
    public List<Double> numbers(String key, List<Double> fallback, int count, double min, double max) {
        if (!has(key)) {
            return fallback;
        }
        List<Scalar> scalars = scalars(key);
        if (scalars.size() != count) {
            throw broken(
                    key, scalars.size() + " numbers are given", "give " + count + ", for example " + fallback, null);
        }
        return scalars.stream().map(s -> number(key, s, min, max)).toList();
    }

    /** {@code true} or {@code false}. */
    @Override
    public boolean flag(String key, boolean fallback) {
        return choice(key, Map.of("true", true, "false", false), fallback);
    }

    /** One of {@code choices} by its name, a float type in any of its spellings. */
    @Override
    public <T> T choice(String key, Map<String, T> choices, T fallback) {
        Optional<String> text = text(key);
        if (text.isEmpty()) {
            return fallback;
        }
        T chosen = choices.get(choices.containsKey(text.get()) ? text.get() : FloatName.normal(text.get()));
        if (chosen == null) {
            throw broken(key, "unknown value '" + text.get() + "'", Nearest.advice(text.get(), choices.keySet()), null);
        }
        return chosen;
    }

    /** One of {@code choices}, by name; the key is required. */
    public <T> T requiredChoice(String key, Map<String, T> choices) {
        if (!has(key)) {
            throw broken(
                    key,
                    "the key is missing",
                    "add " + key + ": ..." + (path.isEmpty() ? "" : " to " + path) + ", "
                            + Nearest.advice("", choices.keySet()),
                    null);
        }
        return choice(key, choices, choices.values().iterator().next());
    }

    /** One or several regular expressions. */
    public List<Pattern> patterns(String key) {
        return scalars(key).stream().map(s -> pattern(key, s)).toList();
    }

    private Pattern pattern(String key, Scalar scalar) {
        try {
            return Pattern.compile(scalar.text());
        } catch (PatternSyntaxException e) {
            throw broken(
                    key,
                    "'" + scalar.text() + "' is not a regular expression: " + e.getDescription(),
                    "correct it; a dot stands for any character, .* for any text",
                    e);
        }
    }

    /** Texts, one or several. */
    @Override
    public List<String> texts(String key) {
        return scalars(key).stream().map(Scalar::text).toList();
    }

    private List<Scalar> scalars(String key) {
        if (!has(key)) {
            return List.of();
        }
        Entry e = entries.get(key);
        List<Scalar> scalars = new ArrayList<>();
        for (Entry each : e instanceof Sequence s ? s.entries() : List.of(e)) {
            if (!(each instanceof Scalar scalar)) {
                throw broken(key, "expected a list of values", "write them in brackets: [a, b]", null);
            }
            scalars.add(scalar);
        }
        return scalars;
    }

    /**
     * Values and mappings of a list, in order; a single one counts as a list of one. Lists in it are refused.
     *
     * @param text reads a value
     * @param mapping reads a mapping
     */
    public <T> List<T> each(String key, Function<String, T> text, Function<Section, T> mapping) {
        if (!has(key)) {
            return List.of();
        }
        List<T> all = new ArrayList<>();
        Entry e = entries.get(key);
        for (Entry each : e instanceof Sequence s ? s.entries() : List.of(e)) {
            switch (each) {
                case Scalar s -> all.add(text.apply(s.text()));
                case Section s -> all.add(s.read(mapping));
                case Sequence _ -> throw broken(key, "expected values, not lists", "write [a, b]", null);
            }
        }
        return all;
    }

    /** A list of whole numbers from {@code min} on, at least one. */
    public List<Long> wholes(String key, long min) {
        List<Scalar> scalars = scalars(key);
        if (scalars.isEmpty()) {
            throw broken(key, "expected whole numbers", "write them in brackets: [30, 60]", null);
        }
        return scalars.stream().map(each -> wholeOf(key, each, min)).toList();
    }

    /** A list of pairs of whole numbers from {@code min} on, as in {@code [[0, 10], [50, 60]]}. */
    public List<List<Long>> pairs(String key, long min) {
        if (!has(key)) {
            return List.of();
        }
        List<List<Long>> pairs = new ArrayList<>();
        Entry e = entries.get(key);
        for (Entry each : e instanceof Sequence s ? s.entries() : List.of(e)) {
            if (!(each instanceof Sequence pair) || pair.entries().size() != 2) {
                throw broken(key, "expected pairs of numbers", "write them as [[0, 10], [50, 60]]", null);
            }
            pairs.add(pair.entries().stream().map(n -> wholeOf(key, n, min)).toList());
        }
        return pairs;
    }

    private long wholeOf(String key, Entry entry, long min) {
        String text = entry instanceof Scalar s ? s.text() : "a list or mapping";
        try {
            long value = Long.parseLong(text.replace("_", ""));
            if (value >= min) {
                return value;
            }
        } catch (NumberFormatException e) {
            throw broken(key, "'" + text + "' is not a whole number", range(min, Long.MAX_VALUE), e);
        }
        throw broken(key, text + " is out of range", range(min, Long.MAX_VALUE), null);
    }

    /** The keys, in the order of the file. None counts as asked for. */
    public List<String> keys() {
        return List.copyOf(entries.keySet());
    }

    /** The file that this was read from, as messages name it. */
    public String file() {
        return file;
    }

    /** A file next to the one that this was read from. */
    public Path sibling(String name) {
        return Path.of(file).resolveSibling(name);
    }

    /** Whether the value of a key is a list. */
    public boolean isList(String key) {
        return entries.get(key) instanceof Sequence;
    }

    /** Whether the value of a key is a mapping. */
    public boolean isSection(String key) {
        return entries.get(key) instanceof Section;
    }

    /** The mapping of a key; empty if the key is missing. */
    public Section section(String key) {
        if (!has(key)) {
            return new Section(file, child(key), line, Map.of(), Map.of());
        }
        if (entries.get(key) instanceof Section section) {
            return section;
        }
        throw broken(key, "expected keys and values", "write them in braces: {name: value}", null);
    }

    /** This mapping as if it were all of its file: keys are named from here on. */
    public Section alone() {
        return (Section) below("", this);
    }

    private static Entry below(String path, Entry entry) {
        return switch (entry) {
            case Scalar s -> s;
            case Sequence s ->
                new Sequence(
                        s.line(), s.entries().stream().map(e -> below(path, e)).toList());
            case Section s -> {
                Map<String, Entry> moved = new LinkedHashMap<>();
                s.entries.forEach((key, e) -> moved.put(key, below(path.isEmpty() ? key : path + "." + key, e)));
                yield new Section(s.file, path, s.line, moved, s.lines, s.origins);
            }
        };
    }

    /** The mappings of a key, in order. */
    public List<Section> sections(String key) {
        if (!has(key)) {
            return List.of();
        }
        List<Section> sections = new ArrayList<>();
        Entry e = entries.get(key);
        for (Entry each : e instanceof Sequence s ? s.entries() : List.of(e)) {
            if (!(each instanceof Section section)) {
                throw broken(key, "expected a list of mappings", "write each in braces: {name: value}", null);
            }
            sections.add(section);
        }
        return sections;
    }

    /** Every key with its value, those of nested mappings too, in the order of the file. */
    public List<Written> written() {
        List<Written> all = new ArrayList<>();
        entries.forEach((key, entry) -> {
            all.add(new Written(child(key), key, text(entry), kind(entry), lines.getOrDefault(key, line), where(key)));
            if (entry instanceof Section nested) {
                all.addAll(nested.written());
            }
        });
        return all;
    }

    /**
     * This mapping with other values.
     *
     * @param assignments {@code KEY=VALUE}: a dotted key, and a value in YAML, which replaces the one that is there
     * @param option where they were given, for messages: {@code --set}
     * @throws InvalidOptionException when one has no key or is not YAML, or when a mapping is wanted where a single value is
     */
    public Section with(List<String> assignments, String option) {
        Section all = this;
        for (String assignment : assignments) {
            String origin = option + " " + assignment;
            int at = assignment.indexOf('=');
            String key = at < 0 ? "" : assignment.substring(0, at).strip();
            if (!key.matches("[^.\\s]+(\\.[^.\\s]+)*")) {
                throw new InvalidOptionException(
                        "there is no key and value in '" + assignment + "'",
                        origin,
                        "as in " + option + " optimizer.lr=1e-4");
            }
            all = all.with(
                    List.of(key.split("\\.")), YamlFile.value(assignment.substring(at + 1), key, origin), origin);
        }
        return all;
    }

    /**
     * This mapping with another value.
     *
     * @param key dotted
     * @param value in YAML
     * @param origin where it comes from, for messages
     * @throws InvalidOptionException when the value is not YAML, or when a mapping is wanted where a single value is
     */
    public Section with(String key, String value, String origin) {
        return with(List.of(key.split("\\.")), YamlFile.value(value, key, origin), origin);
    }

    private Section with(List<String> keys, Entry value, String origin) {
        String key = keys.getFirst();
        Entry old = entries.get(key);
        Map<String, Entry> changed = new LinkedHashMap<>(entries);
        Map<String, String> from = new LinkedHashMap<>(origins);
        if (keys.size() == 1) {
            changed.put(key, value);
            from.put(key, origin);
        } else if (old == null || (old instanceof Scalar s && s.isNull())) {
            Section empty = new Section(file, child(key), line, Map.of(), Map.of());
            changed.put(key, empty.with(keys.subList(1, keys.size()), value, origin));
            from.put(key, origin);
        } else if (old instanceof Section nested) {
            changed.put(key, nested.with(keys.subList(1, keys.size()), value, origin));
        } else {
            throw new InvalidOptionException(
                    "'" + child(key) + "' is a value, not a mapping with keys",
                    origin,
                    "write " + child(key) + "=VALUE");
        }
        return new Section(file, path, line, changed, lines, from);
    }

    /** This mapping as YAML: a line for each key, what is nested in braces and brackets. It reads back as the same. */
    public String yaml() {
        StringBuilder text = new StringBuilder();
        entries.forEach((key, entry) ->
                text.append(quoted(key)).append(": ").append(flow(entry)).append('\n'));
        return text.toString();
    }

    private static String flow(Entry entry) {
        return switch (entry) {
            case Scalar s -> s.isNull() ? "null" : quoted(s.text());
            case Sequence s -> s.entries().stream().map(Section::flow).collect(Collectors.joining(", ", "[", "]"));
            case Section s ->
                s.entries.entrySet().stream()
                        .map(e -> quoted(e.getKey()) + ": " + flow(e.getValue()))
                        .collect(Collectors.joining(", ", "{", "}"));
        };
    }

    /** Text as it stands where no character means anything in YAML, else in single quotes, or in double quotes for what these cannot hold. */
    private static String quoted(String text) {
        if (text.matches("[A-Za-z0-9_./][A-Za-z0-9_./+-]*") && !text.equalsIgnoreCase("null")) {
            return text;
        }
        if (text.chars().noneMatch(Section::isBreak)) {
            return "'" + text.replace("'", "''") + "'";
        }
        StringBuilder escaped = new StringBuilder("\"");
        text.chars().forEach(c -> {
            if (c == '"' || c == '\\') {
                escaped.append('\\').append((char) c);
            } else if (isBreak(c)) {
                escaped.append(String.format(Locale.ROOT, "\\u%04x", c));
            } else {
                escaped.append((char) c);
            }
        });
        return escaped.append('"').toString();
    }

    /** Whether a character is a control character or breaks a line in YAML. */
    private static boolean isBreak(int c) {
        return Character.isISOControl(c) || c == 0x2028 || c == 0x2029 || c == 0xFEFF;
    }

    /** File, line and dotted key, for messages. */
    public String where(String key) {
        String origin = origins.get(key);
        return origin == null
                ? file + ", line " + lines.getOrDefault(key, line) + ", key " + child(key)
                : origin + ", key " + child(key);
    }

    /** Contents of the section, keys in alphabetical order. */
    @Override
    public String toString() {
        List<String> all = new ArrayList<>();
        new TreeMap<>(entries).forEach((key, entry) -> all.add(key + ": " + text(entry)));
        return "{" + String.join(", ", all) + "}";
    }

    private static Kind kind(Entry entry) {
        return switch (entry) {
            case Scalar s -> s.kind();
            case Sequence _ -> Kind.LIST;
            case Section _ -> Kind.MAPPING;
        };
    }

    private static String text(Entry entry) {
        return switch (entry) {
            case Scalar s -> s.text();
            case Sequence s -> s.entries().stream().map(Section::text).toList().toString();
            case Section s -> s.toString();
        };
    }

    /** Reads this section with {@code reader}, then rejects the keys it did not get. */
    public <T> T read(Function<Section, T> reader) {
        T value = reader.apply(this);
        end();
        return value;
    }

    /** Rejects the keys that no getter asked for. */
    public void end() {
        for (String key : entries.keySet()) {
            if (!asked.contains(key)) {
                throw broken(key, "unknown key '" + child(key) + "'", Nearest.advice(key, asked), null);
            }
        }
    }

    private Optional<Scalar> scalar(String key) {
        if (!has(key)) {
            return Optional.empty();
        }
        if (entries.get(key) instanceof Scalar scalar) {
            return Optional.of(scalar);
        }
        throw broken(key, "expected a single value", "write a single value", null);
    }

    private String child(String key) {
        return path.isEmpty() ? key : path + "." + key;
    }

    private InvalidOptionException missing(String key) {
        // a mistyped key shows up as missing under its correct name
        List<String> typed = Nearest.names(
                key, entries.keySet().stream().filter(k -> !asked.contains(k)).toList());
        String fix = typed.isEmpty()
                ? "add " + key + ": ..." + (path.isEmpty() ? "" : " to " + path)
                : "did you mean " + key + " where " + typed.getFirst() + " is written?";
        return broken(typed.isEmpty() ? key : typed.getFirst(), "the key " + key + " is missing", fix, null);
    }

    /** An error about a key of this section. */
    @Override
    public InvalidOptionException error(String key, String what, String fix) {
        return broken(key, what, fix, null);
    }

    private InvalidOptionException broken(String key, String what, String fix, @Nullable Throwable cause) {
        String where = where(key);
        return cause == null
                ? new InvalidOptionException(what, where, fix)
                : new InvalidOptionException(what, where, fix, cause);
    }
}
