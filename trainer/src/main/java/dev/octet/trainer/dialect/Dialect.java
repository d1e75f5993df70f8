package dev.octet.trainer.dialect;

import dev.octet.trainer.yaml.Section;
import java.util.List;
import java.util.Optional;

/** A library whose configurations are read. */
public enum Dialect {
    /** The JSON of DeepSpeed. */
    DEEPSPEED("DeepSpeed"),
    /** The YAML of {@code accelerate config}. */
    ACCELERATE("Accelerate"),
    /** The TrainingArguments of transformers, as JSON. */
    TRANSFORMERS("transformers");

    private final String library;

    Dialect(String library) {
        this.library = library;
    }

    /** The name of the library, for people. */
    public String library() {
        return library;
    }

    /** All documented keys, in the order of the documentation. */
    public List<KeyRule> rules() {
        return keys().rules();
    }

    /** The table of its keys. */
    KeyTable keys() {
        return switch (this) {
            case DEEPSPEED -> DeepSpeedKeys.ALL;
            case ACCELERATE -> AccelerateKeys.ALL;
            case TRANSFORMERS -> TrainingArgumentsKeys.ALL;
        };
    }

    /**
     * Whose configuration a file is: the library that knows most of its outermost keys, and at least half of them. Empty when there is none, as
     * for a configuration of Octet's own.
     */
    public static Optional<Dialect> of(Section file) {
        List<String> names = file.keys();
        Dialect best = DEEPSPEED;
        long most = -1;
        for (Dialect each : values()) {
            long known = names.stream().filter(each.keys()::isKnown).count();
            if (known > most) {
                best = each;
                most = known;
            }
        }
        return most > 0 && 2 * most >= names.size() ? Optional.of(best) : Optional.empty();
    }

    /**
     * Reads a configuration of this library.
     *
     * @param file all of it
     * @param given what is known besides it
     */
    public Reading read(Section file, Given given) {
        return switch (this) {
            case DEEPSPEED -> DeepSpeed.read(file, given);
            case ACCELERATE -> Accelerate.read(file, given);
            case TRANSFORMERS -> TrainingArguments.read(file, given);
        };
    }
}
