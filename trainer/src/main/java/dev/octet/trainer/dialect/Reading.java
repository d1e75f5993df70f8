package dev.octet.trainer.dialect;

import dev.octet.formats.error.InvalidOptionException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.stream.Stream;

/**
 * What a configuration of another library really does here.
 *
 * @param dialect whose configuration it is
 * @param file its name
 * @param rows of every key of the file in its order, then of defaults that matter
 * @param settings the configuration it becomes, each key once
 * @param problems what is wrong with the file itself, in the library's own terms
 */
public record Reading(Dialect dialect, String file, List<Row> rows, List<Setting> settings, List<Problem> problems) {
    private static final int COLUMNS = 80;

    /** Where comments begin behind settings. */
    private static final int COMMENT_COLUMN = 30;

    /**
     * What becomes of one key.
     *
     * @param key dotted, in the library's words
     * @param value as written, with what {@code "auto"} was filled with; of a default the default
     * @param line where it is written, from 1; empty for a default
     * @param fate what becomes of it
     * @param becomes the settings here, as {@code optimizer.lr: 1e-4}; empty where there are none
     * @param reason one sentence; empty where the settings say all
     */
    public record Row(String key, String value, OptionalInt line, Fate fate, String becomes, String reason) {}

    /**
     * A mistake in the file: an unknown key, a value of another type, keys that contradict each other.
     *
     * @param what is wrong
     * @param where file, line and key
     * @param fix what to do
     */
    public record Problem(String what, String where, String fix) {}

    public Reading {
        rows = List.copyOf(rows);
        settings = List.copyOf(settings);
        problems = List.copyOf(problems);
    }

    /** The rows with this fate, in order. */
    public List<Row> rows(Fate fate) {
        return rows.stream().filter(r -> r.fate() == fate).toList();
    }

    /**
     * What a run says of the file at its start: keys without effect and defaults of the library that change what it does.
     *
     * @return lines for people
     */
    public List<String> notes() {
        List<String> notes = new ArrayList<>();
        Map<String, List<String>> idle = new LinkedHashMap<>();
        rows(Fate.NO_EFFECT).stream()
                .filter(r -> r.line().isPresent())
                .forEach(r ->
                        idle.computeIfAbsent(r.reason(), _ -> new ArrayList<>()).add(r.key()));
        idle.forEach(
                (reason, keys) -> notes.add(file + ": without effect: " + String.join(", ", keys) + ". " + reason));
        rows.stream()
                .filter(r -> r.line().isEmpty() && !r.becomes().isEmpty())
                .forEach(r -> notes.add(file + ": " + r.key() + " is left out: " + r.becomes()
                        + (r.reason().isEmpty() ? "" : ". " + r.reason())));
        return notes;
    }

    /** Whether a run can do all that the file asks for. */
    public boolean isHonoured() {
        return problems.isEmpty() && rows(Fate.REFUSED).isEmpty();
    }

    /**
     * Refuses a file that a run cannot honour.
     *
     * @throws InvalidOptionException with its mistakes, or with the keys that are refused, all of them
     */
    public void requireHonoured() {
        if (!problems.isEmpty()) {
            throw new InvalidOptionException(
                    joined(problems.stream().map(Problem::what)),
                    joined(problems.stream().map(Problem::where)),
                    joined(problems.stream().map(Problem::fix)));
        }
        List<Row> refused = rows(Fate.REFUSED);
        if (!refused.isEmpty()) {
            throw new InvalidOptionException(
                    joined(refused.stream().map(r -> r.key() + ": " + r.value() + " is refused: " + r.reason())),
                    joined(refused.stream().map(this::where)),
                    "remove " + joined(refused.stream().map(Row::key)) + "; octet config " + file
                            + " explains every key");
        }
    }

    private String where(Row row) {
        return row.line().isPresent() ? file + ", line " + row.line().getAsInt() : file;
    }

    private static String joined(Stream<String> texts) {
        return String.join("; ", texts.distinct().toList());
    }

    /**
     * The configuration that the file becomes, as YAML with a comment for each key that says where it comes from, in lines of 80 characters where
     * values allow.
     *
     * @param head comments at the top; long ones take several lines
     */
    public String yaml(List<String> head) {
        List<String> lines = new ArrayList<>();
        head.forEach(h -> wrap(lines, h));
        Map<String, List<Setting>> sections = new LinkedHashMap<>();
        settings.forEach(s -> sections.computeIfAbsent(s.key().split("\\.", -1)[0], _ -> new ArrayList<>())
                .add(s));
        sections.forEach((_, in) -> add(lines, in, 0));
        return String.join("\n", lines) + "\n";
    }

    /** A comment, broken between words. */
    private static void wrap(List<String> lines, String text) {
        StringBuilder line = new StringBuilder("#");
        for (String word : text.replaceAll("\\p{Cntrl}", " ").split(" ", -1)) {
            if (line.length() + 1 + word.length() > COLUMNS && line.length() > 1) {
                lines.add(line.toString());
                line = new StringBuilder("#  ");
            }
            line.append(' ').append(word);
        }
        lines.add(line.toString());
    }

    /** Settings that share their first {@code depth} names. */
    private static void add(List<String> lines, List<Setting> settings, int depth) {
        String[] first = settings.getFirst().key().split("\\.", -1);
        String indent = "  ".repeat(depth);
        if (first.length == depth + 1) {
            Setting setting = settings.getFirst();
            String line = indent + first[depth] + ": " + setting.value();
            String comment = "# " + setting.from().replaceAll("\\p{Cntrl}", " ");
            String both = line + " ".repeat(Math.max(1, COMMENT_COLUMN - line.length())) + comment;
            if (both.length() > COLUMNS) {
                lines.add(indent + comment);
                lines.add(line);
            } else {
                lines.add(both);
            }
            return;
        }
        lines.add(indent + first[depth] + ":");
        Map<String, List<Setting>> nested = new LinkedHashMap<>();
        settings.forEach(s -> nested.computeIfAbsent(s.key().split("\\.", -1)[depth + 1], _ -> new ArrayList<>())
                .add(s));
        nested.values().forEach(in -> add(lines, in, depth + 1));
    }
}
