package dev.octet.trainer.dialect;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.dialect.Reading.Problem;
import dev.octet.trainer.yaml.HjsonFile;
import dev.octet.trainer.yaml.Section;
import java.io.IOException;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** A JSON of DeepSpeed that another configuration names: what it really does becomes part of what that one does. */
final class Chained {
    private Chained() {}

    /**
     * Reads the file that a key names; a relative path starts at the folder of the file that names it.
     *
     * @param draft gets its settings as those of {@code key}, its mistakes, or a refusal
     * @param given what is known besides
     */
    static void read(Draft draft, String key, Given given) {
        String name = draft.text(key);
        try {
            @Nullable Path folder = Path.of(draft.file()).getParent();
            Path path = folder == null ? Path.of(name) : folder.resolve(name);
            Reading reading = Dialect.DEEPSPEED.read(DialectFiles.parse(path), given);
            add(draft, key, reading, " of " + name, "octet config " + name);
        } catch (IOException | InvalidPathException _) {
            draft.problem(
                    key,
                    "the file '" + name + "' cannot be read",
                    "give the path of a DeepSpeed JSON, from this file's folder");
        } catch (InvalidOptionException e) {
            draft.problem(
                    key,
                    "the file '" + name + "' is no DeepSpeed JSON: " + e.what(),
                    "correct it: octet config " + name);
        }
    }

    /** Reads the JSON that a key has as its text. */
    static void inline(Draft draft, String key, Given given) {
        try {
            inline(draft, key, HjsonFile.parse(draft.text(key), draft.file() + ", " + key), given);
        } catch (InvalidOptionException e) {
            draft.problem(key, "the text is no DeepSpeed JSON: " + e.what(), e.fix());
        }
    }

    /**
     * Reads the JSON that a key has as its value.
     *
     * @param json its value as if it were a file of its own
     */
    static void inline(Draft draft, String key, Section json, Given given) {
        add(
                draft,
                key,
                Dialect.DEEPSPEED.read(json, given),
                " of " + key,
                "write it into a file, and octet config FILE");
    }

    /** @param of names the JSON behind a key's name */
    private static void add(Draft draft, String key, Reading reading, String of, String lists) {
        if (!reading.problems().isEmpty()) {
            Problem first = reading.problems().getFirst();
            int more = reading.problems().size() - 1;
            draft.problem(
                    key,
                    first.what() + of,
                    more == 0 ? first.fix() : first.fix() + "; " + more + " more: " + lists + " lists all");
            return;
        }
        List<String> refused =
                reading.rows(Fate.REFUSED).stream().map(Reading.Row::key).toList();
        if (!refused.isEmpty()) {
            draft.refused(
                    key, "It has keys that are refused: " + String.join(", ", refused) + "; " + lists + " says why.");
            return;
        }
        String idle = reading.rows(Fate.NO_EFFECT).stream()
                .filter(r -> r.line().isPresent())
                .map(Reading.Row::key)
                .collect(Collectors.joining(", "));
        draft.mapped(
                key,
                idle.isEmpty() ? "" : "Without effect in it: " + idle + ".",
                reading.settings().stream()
                        .map(s -> new Setting(s.key(), s.value(), s.from() + of, s.isDefault()))
                        .toArray(Setting[]::new));
    }
}
