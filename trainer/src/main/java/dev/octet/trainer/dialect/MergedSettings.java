package dev.octet.trainer.dialect;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.yaml.Section;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/** A run's own configuration while settings of other files join it, those that files write before those that are defaults. */
final class MergedSettings {
    /** Parts of a configuration that DeepSpeed's file decides where it says anything of them. */
    private static final Set<String> OF_DEEPSPEED = Set.of("optimizer", "schedule", "precision");

    /** Keys of which a configuration has one. */
    private static final Map<String, String> EITHER = Map.of("steps", "epochs", "epochs", "steps");

    private final Section wanted;
    private Section section;
    private final Map<String, String> values = new HashMap<>();
    private final Map<String, String> places = new HashMap<>();

    /** Parts that DeepSpeed's file says something of. */
    private final Set<String> decided = new LinkedHashSet<>();

    private final Set<String> undecided = new LinkedHashSet<>();
    private final List<String> conflicts = new ArrayList<>();
    private final List<String> where = new ArrayList<>();

    /**
     * @param own the run's configuration
     * @param wanted the same with what the command line sets
     */
    MergedSettings(Section own, Section wanted) {
        this.section = own;
        this.wanted = wanted;
        own.written().forEach(w -> {
            values.put(w.key(), w.value());
            places.put(w.key(), w.where());
        });
    }

    void add(Reading reading, Setting setting) {
        String part = setting.key().split("\\.", -1)[0];
        if (reading.dialect() == Dialect.DEEPSPEED && !setting.isDefault()) {
            decided.add(part);
        }
        if (reading.dialect() != Dialect.DEEPSPEED && OF_DEEPSPEED.contains(part) && decided.contains(part)) {
            if (!setting.isDefault()) {
                undecided.add(reading.file() + ": " + part);
            }
            return;
        }
        String other = EITHER.get(setting.key());
        boolean isOther = other != null && (values.containsKey(other) || wanted.isWritten(other));
        if (setting.isDefault() && isOther) {
            return;
        }
        String there = values.get(setting.key());
        if (there == null) {
            section = section.with(setting.key(), setting.value(), reading.file() + ", " + setting.from());
            values.put(setting.key(), setting.value());
            places.put(setting.key(), reading.file());
        } else if (!setting.isDefault() && !setting.isSame(there) && !isSet(setting.key())) {
            conflicts.add(setting.key() + " is " + there + ", but " + setting.from() + " asks for " + setting.value());
            where.add(places.get(setting.key()) + " and " + reading.file());
        }
    }

    /** Whether the command line gives the key a value. */
    private boolean isSet(String key) {
        return wanted.written().stream()
                .anyMatch(w -> w.key().equals(key) && w.where().startsWith("--"));
    }

    /**
     * All together.
     *
     * @throws InvalidOptionException when two files disagree
     */
    Section section() {
        if (!conflicts.isEmpty()) {
            throw new InvalidOptionException(
                    String.join("; ", conflicts),
                    String.join("; ", where),
                    "keep one of them, or decide with --set KEY=VALUE");
        }
        return section;
    }

    /** Which parts of a file DeepSpeed's file decides. */
    List<String> notes() {
        return undecided.isEmpty()
                ? List.of()
                : List.of(undecided.stream().collect(Collectors.joining(", "))
                        + ": DeepSpeed's file decides, as in transformers");
    }
}
