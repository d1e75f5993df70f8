package dev.octet.trainer.dialect;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.dialect.Reading.Problem;
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
        Reading reading;
        try {
            @Nullable Path folder = Path.of(draft.file()).getParent();
            Path path = folder == null ? Path.of(name) : folder.resolve(name);
            reading = Dialect.DEEPSPEED.read(DialectFiles.parse(path), given);
        } catch (IOException | InvalidPathException _) {
            draft.problem(
                    key,
                    "the file '" + name + "' cannot be read",
                    "give the path of a DeepSpeed JSON, from this file's folder");
            return;
        } catch (InvalidOptionException e) {
            draft.problem(
                    key,
                    "the file '" + name + "' is no DeepSpeed JSON: " + e.what(),
                    "correct it: octet config " + name);
            return;
        }
        if (!reading.problems().isEmpty()) {
            Problem first = reading.problems().getFirst();
            draft.problem(key, name + ": " + first.what(), first.fix() + "; octet config " + name + " lists all");
            return;
        }
        List<String> refused =
                reading.rows(Fate.REFUSED).stream().map(Reading.Row::key).toList();
        if (!refused.isEmpty()) {
            draft.refused(
                    key,
                    "It has keys that are refused: " + String.join(", ", refused) + "; octet config " + name
                            + " says why.");
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
                        .map(s -> new Setting(s.key(), s.value(), s.from() + " of " + name, s.isDefault()))
                        .toArray(Setting[]::new));
    }
}
