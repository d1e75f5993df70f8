package dev.octet.trainer.dialect;

import dev.octet.trainer.dialect.Reading.Problem;
import dev.octet.trainer.dialect.Reading.Row;
import dev.octet.trainer.yaml.Section;
import dev.octet.trainer.yaml.Section.Kind;
import dev.octet.trainer.yaml.Section.Written;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * A {@link Reading} while it is made. The dialect's code asks for values and says what becomes of the keys whose row leaves that to it ({@link
 * Becomes.Decided}); {@link #finish} adds what the table says of all others.
 */
final class Draft {
    /** Value that transformers and Accelerate fill in. */
    static final String AUTO = "auto";

    /** As many processes as a run here has in one direction of its mesh. */
    private static final int MOST_RANKS = 1024;

    /** Keys of a configuration here, in the order in which they are written. */
    private static final List<String> ORDER = List.of(
            "data",
            "loss",
            "batch_size",
            "gradient_accumulation",
            "steps",
            "epochs",
            "seed",
            "optimizer",
            "schedule",
            "clip_grad_norm",
            "precision",
            "gradient_checkpointing",
            "activations",
            "offload",
            "distributed",
            "eval_every",
            "eval_delay",
            "eval_on_start",
            "checkpoint");

    private final Dialect dialect;
    private final String file;
    /** Keys with a value, by path: those that hold other keys only where they are empty. */
    private final Map<String, Written> leaves = new LinkedHashMap<>();

    /** The last mapping that is read as a whole; keys below it follow it. */
    private String whole = "";

    /** What {@code "auto"} was filled with, and from what. */
    private final Map<String, String> filled = new LinkedHashMap<>();

    private final Map<String, String> sources = new LinkedHashMap<>();
    private final Map<String, Row> rows = new LinkedHashMap<>();
    private final List<Setting> settings = new ArrayList<>();
    private final List<Problem> problems = new ArrayList<>();
    private final Set<String> mistaken = new HashSet<>();

    Draft(Dialect dialect, Section section) {
        this.dialect = dialect;
        this.file = section.file();
        section.written().forEach(this::add);
    }

    /** Sorts a key in: a leaf, keys that hold others, or a mistake. */
    private void add(Written written) {
        String key = written.key();
        if (!whole.isEmpty() && key.startsWith(whole + ".")) {
            return; // part of a value that is read as a whole
        }
        whole = "";
        if (written.kind() == Kind.MAPPING
                && dialect.keys().holds(key)
                && !written.name().contains(".")) {
            if (written.value().equals("{}")) {
                leaves.put(key, written);
                noEffect(key, "It is empty: the defaults count.");
            }
            return;
        }
        whole = written.kind() == Kind.MAPPING ? key : "";
        Optional<KeyRule> rule = dialect.keys().rule(key);
        if (rule.isEmpty() || (written.name().contains(".") && rule.get().path().equals(key))) {
            boolean holder = !written.name().contains(".") && dialect.keys().isKnown(key);
            leaves.put(key, written);
            if (holder && written.kind() == Kind.NULL) {
                noEffect(key, "Null leaves the defaults.");
            } else if (holder) {
                problem(key, "'" + key + "' holds keys and values, not " + shown(written), "write {\"name\": value}");
            } else {
                problem(
                        key,
                        dialect.library() + " knows no key '" + key + "'",
                        dialect.keys().advice(key));
            }
            return;
        }
        leaves.put(key, written);
        boolean auto = written.kind() == Kind.TEXT && written.value().equals(AUTO);
        if (!auto && !rule.get().type().takes(written.value(), written.kind())) {
            problem(
                    key,
                    "'" + key + "' is " + shown(written) + ", not "
                            + rule.get().type().text(),
                    "correct the value");
        }
    }

    private static String shown(Written written) {
        return switch (written.kind()) {
            case TEXT -> "'" + written.value() + "'";
            case NUMBER, FLAG -> written.value();
            case NULL -> "null";
            case LIST -> "a list";
            case MAPPING -> "a mapping";
        };
    }

    /** The name of the file. */
    String file() {
        return file;
    }

    /** Whether a key is written with a value: null counts as left out, and so does {@code "auto"} that nothing fills. */
    boolean has(String key) {
        Written written = leaves.get(key);
        return filled.containsKey(key)
                || (written != null && written.kind() != Kind.NULL && !isMistaken(key) && !isAuto(key));
    }

    /** Whether a key is written as {@code "auto"} and not filled yet. */
    boolean isAuto(String key) {
        Written written = leaves.get(key);
        return written != null
                && written.kind() == Kind.TEXT
                && written.value().equals(AUTO)
                && !filled.containsKey(key);
    }

    /** Whether a mapping of this name is in the file, empty or not. */
    boolean hasSection(String key) {
        return leaves.keySet().stream().anyMatch(leaf -> leaf.equals(key) || leaf.startsWith(key + "."));
    }

    /** Keys in the file that are below one, as paths. */
    List<String> below(String key) {
        return leaves.keySet().stream()
                .filter(leaf -> leaf.startsWith(key + "."))
                .toList();
    }

    /** Keys of which something was said. */
    Set<String> decided() {
        Set<String> all = new HashSet<>(rows.keySet());
        all.addAll(mistaken);
        return all;
    }

    /** Whether the table alone says what becomes of a key. */
    boolean isByTable(String key) {
        return dialect.keys()
                .rule(key)
                .filter(r -> !(r.becomes() instanceof Becomes.Decided))
                .isPresent();
    }

    /** Keys whose value is a number in quotes. */
    List<String> quotedNumbers() {
        return leaves.values().stream()
                .filter(w -> w.kind() == Kind.TEXT && !isMistaken(w.key()))
                .map(Written::key)
                .filter(key -> dialect.keys()
                        .rule(key)
                        .map(KeyRule::type)
                        .filter(t -> t == KeyType.NUMBER || t == KeyType.WHOLE)
                        .isPresent())
                .filter(key -> !isAuto(key))
                .toList();
    }

    /** The value of a key as written or filled; otherwise the library's default. */
    String text(String key) {
        if (filled.containsKey(key)) {
            return filled.get(key);
        }
        Written written = leaves.get(key);
        return written != null && has(key)
                ? written.value()
                : dialect.keys().rule(key).map(KeyRule::standard).orElse("");
    }

    /** The value of a key in lower case. */
    String word(String key) {
        return text(key).toLowerCase(Locale.ROOT);
    }

    /** The truth of a key. */
    boolean flag(String key) {
        return KeyType.isTrue(text(key));
    }

    /** The number of a key, which must have a default or be there. */
    double number(String key) {
        return KeyType.number(text(key));
    }

    /** The whole number of a key, which must have a default or be there; {@link Long#MAX_VALUE} for larger ones. */
    long whole(String key) {
        return (long) number(key);
    }

    /** A number within bounds; otherwise a mistake. */
    boolean isWithin(String key, double least, double most) {
        if (isMistaken(key)) {
            return false;
        }
        if (number(key) >= least && number(key) <= most) {
            return true;
        }
        problem(
                key,
                key + " is " + text(key),
                "give a number of at least " + DeepSpeed.plain(least)
                        + (most < Integer.MAX_VALUE ? ", at most " + DeepSpeed.plain(most) : ""));
        return false;
    }

    /**
     * How many processes share something: a setting above 1.
     *
     * @param here the key of a run
     */
    void ranks(String key, String here, String reason) {
        if (!has(key) || !isWithin(key, 0, MOST_RANKS)) {
            return;
        }
        if (whole(key) <= 1) {
            noEffect(key, "With this value it asks for nothing.");
        } else {
            mapped(key, reason, setting(here, String.valueOf(whole(key)), key));
        }
    }

    /** Whether a key's value is text. */
    boolean isText(String key) {
        Written written = leaves.get(key);
        return written != null && written.kind() == Kind.TEXT;
    }

    /** Replaces {@code "auto"}. */
    void fill(String key, String value, String source) {
        filled.put(key, value);
        sources.put(key, source);
    }

    /** A mistake in a key; it gets no row. */
    void problem(String key, String what, String fix) {
        Written written = leaves.get(key);
        problems.add(new Problem(what, written == null ? file : written.where(), fix));
        rows.remove(key);
        mistaken.add(key);
    }

    /** Whether a key has a mistake. */
    boolean isMistaken(String key) {
        return mistaken.contains(key);
    }

    /** The key means the same here and keeps its value. */
    void applied(String key, String here, String value, String reason) {
        row(key, Fate.APPLIED, reason, setting(here, value, key));
    }

    /** The key becomes others. */
    void mapped(String key, String reason, Setting... becomes) {
        row(key, Fate.MAPPED, reason, becomes);
    }

    /** Nothing depends on the key. */
    void noEffect(String key, String reason) {
        row(key, Fate.NO_EFFECT, reason);
    }

    /** The key asks for what a run does not do. */
    void refused(String key, String reason) {
        row(key, Fate.REFUSED, reason);
    }

    /** A setting here that comes from a key. */
    Setting setting(String here, String value, String key) {
        return new Setting(here, value, from(key), !leaves.containsKey(key));
    }

    /** A key as a comment says that a setting comes from it. */
    private String from(String key) {
        if (!leaves.containsKey(key)) {
            return key + ", the default";
        }
        return sources.containsKey(key) ? key + ", auto" : key;
    }

    /** Says what becomes of a key, written or not; once for each key, what comes later counts. */
    private void row(String key, Fate fate, String reason, Setting... becomes) {
        if (isMistaken(key)) {
            return;
        }
        for (Setting each : becomes) {
            set(key, each);
        }
        Written written = leaves.get(key);
        rows.put(
                key,
                new Row(
                        key,
                        value(key, written),
                        written == null ? OptionalInt.empty() : OptionalInt.of(written.line()),
                        fate,
                        Arrays.stream(becomes)
                                .map(s -> s.key() + ": " + s.value())
                                .collect(Collectors.joining(", ")),
                        reason));
    }

    private String value(String key, @Nullable Written written) {
        if (filled.containsKey(key)) {
            return AUTO + " = " + filled.get(key) + " (" + sources.get(key) + ")";
        }
        if (written == null) {
            return text(key);
        }
        return written.kind() == Kind.NULL ? "null" : written.value();
    }

    private void set(String key, Setting setting) {
        Optional<Setting> earlier =
                settings.stream().filter(s -> s.key().equals(setting.key())).findFirst();
        if (earlier.isEmpty()) {
            settings.add(setting);
        } else if (!earlier.get().value().equals(setting.value())) {
            problem(
                    key,
                    earlier.get().from() + " asks for " + setting.key() + ": "
                            + earlier.get().value() + ", and " + setting.from() + " for " + setting.value(),
                    "keep one of them");
        }
    }

    /** The finished reading: what the table says of keys that have no fate yet is added. */
    Reading finish() {
        for (Written written : leaves.values()) {
            String key = written.key();
            if (isMistaken(key)) {
                continue;
            }
            Optional<KeyRule> rule = dialect.keys().rule(key);
            boolean matters = rule.map(KeyRule::becomes)
                    .filter(b -> b instanceof Becomes.Same || b instanceof Becomes.Decided)
                    .isPresent();
            if (isAuto(key) && matters) {
                problem(
                        key,
                        "nothing fills \"auto\" of '" + key + "': transformers has no argument for it",
                        "write the value");
            } else if (!rows.containsKey(key)) {
                byTable(key, written, rule.orElseThrow());
            }
        }
        List<Row> ordered = new ArrayList<>();
        leaves.keySet().stream().filter(rows::containsKey).map(rows::get).forEach(ordered::add);
        rows.values().stream().filter(r -> !leaves.containsKey(r.key())).forEach(ordered::add);
        List<Setting> sorted = new ArrayList<>(settings);
        sorted.sort(Comparator.comparingInt(Draft::order));
        return new Reading(dialect, file, ordered, sorted, problems);
    }

    private static int order(Setting setting) {
        int at = ORDER.indexOf(setting.key().split("\\.", -1)[0]);
        return at < 0 ? ORDER.size() : at;
    }

    private void byTable(String key, Written written, KeyRule rule) {
        if (written.kind() == Kind.NULL) {
            noEffect(key, "Null leaves the default.");
            return;
        }
        switch (rule.becomes()) {
            case Becomes.Same same -> applied(key, same.key(), text(key), "");
            case Becomes.NoEffect none -> noEffect(key, none.reason());
            case Becomes.Refused refused -> {
                boolean harmless =
                        refused.harmless().contains(word(key)) || word(key).equals("[]");
                if (harmless) {
                    noEffect(key, "With this value it asks for nothing.");
                } else {
                    refused(key, refused.reason());
                }
            }
            case Becomes.Feature feature -> {
                if (feature.switches().stream().anyMatch(this::flag)) {
                    refused(key, feature.reason());
                } else {
                    noEffect(key, "The " + feature.feature() + " is off.");
                }
            }
            case Becomes.Decided _ -> throw new IllegalStateException("nothing was said of " + key);
        }
    }
}
