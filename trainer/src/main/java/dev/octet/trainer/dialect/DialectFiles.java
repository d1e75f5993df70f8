package dev.octet.trainer.dialect;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.file.RunPaths;
import dev.octet.trainer.yaml.HjsonFile;
import dev.octet.trainer.yaml.Section;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/**
 * Configurations of other libraries that a run is given, as the options {@code --deepspeed}, {@code --accelerate} and {@code --hf-args} name them.
 *
 * @param files at most one of each library
 * @param version of DeepSpeed whose defaults count; empty for the newest
 * @param onGpu whether the run computes on a GPU
 */
public record DialectFiles(Map<Dialect, Path> files, Optional<String> version, boolean onGpu) {
    /** None. */
    public static final DialectFiles NONE = new DialectFiles(Map.of(), Optional.empty(), false);

    /**
     * A configuration that other libraries' are part of.
     *
     * @param section all of it
     * @param notes what a run says of the files at its start: keys without effect, defaults that matter, who decides
     */
    public record Merged(Section section, List<String> notes) {
        public Merged {
            notes = List.copyOf(notes);
        }
    }

    public DialectFiles {
        Map<Dialect, Path> sorted = new EnumMap<>(Dialect.class);
        sorted.putAll(files);
        files = Collections.unmodifiableMap(sorted);
    }

    /** The same with the file of a library. */
    public DialectFiles with(Dialect dialect, Path file) {
        Map<Dialect, Path> more = new HashMap<>(files);
        more.put(dialect, file);
        return new DialectFiles(more, version, onGpu);
    }

    /** The same with a version of DeepSpeed. */
    public DialectFiles withVersion(String newVersion) {
        return new DialectFiles(files, Optional.of(newVersion), onGpu);
    }

    /** The same on a GPU or on a processor. */
    public DialectFiles on(boolean gpu) {
        return new DialectFiles(files, version, gpu);
    }

    /** Whether there is none. */
    public boolean isEmpty() {
        return files.isEmpty();
    }

    /** The option that names a library's file. */
    public static String option(Dialect dialect) {
        return switch (dialect) {
            case DEEPSPEED -> "--deepspeed";
            case ACCELERATE -> "--accelerate";
            case TRANSFORMERS -> "--hf-args";
        };
    }

    /** The name under which a run keeps a library's file. */
    public static String keptName(Dialect dialect) {
        return switch (dialect) {
            case DEEPSPEED -> "deepspeed.json";
            case ACCELERATE -> "accelerate.yaml";
            case TRANSFORMERS -> "hf-args.json";
        };
    }

    /** With these files among what is read. */
    public RunPaths reading(RunPaths paths) throws IOException {
        RunPaths all = paths;
        for (Map.Entry<Dialect, Path> each : files.entrySet()) {
            all = all.reading(option(each.getKey()), each.getValue());
        }
        return all;
    }

    /**
     * Reads a file as what it is: Hjson where it starts with a brace or is named as JSON, otherwise YAML.
     *
     * @throws InvalidOptionException when it is neither
     * @throws IOException when it cannot be read
     */
    public static Section parse(Path file) throws IOException {
        if (file.toString().toLowerCase(Locale.ROOT).matches(".*\\.h?json") || startsWithBrace(file)) {
            return HjsonFile.read(file);
        }
        return YamlFile.read(file);
    }

    private static boolean startsWithBrace(Path file) throws IOException {
        byte[] head;
        try (InputStream in = Files.newInputStream(file)) {
            head = in.readNBytes(4096);
        }
        for (byte b : head) {
            if (!Character.isWhitespace(b)) {
                return b == '{' || b == '/';
            }
        }
        return false;
    }

    /**
     * What each file really does.
     *
     * @param given what is known besides the files
     * @throws IOException when one cannot be read
     */
    public List<Reading> read(Given given) throws IOException {
        Given all = (version.isPresent() ? given.withVersion(version.get()) : given).on(onGpu);
        if (files.containsKey(Dialect.TRANSFORMERS)) {
            all = all.withArguments(parse(files.get(Dialect.TRANSFORMERS)));
        }
        List<Reading> readings = new ArrayList<>();
        for (Map.Entry<Dialect, Path> each : files.entrySet()) {
            readings.add(each.getKey().read(parse(each.getValue()), all));
        }
        return readings;
    }

    /** What the file of one library really does, with nothing known but the other files. */
    public Reading read(Dialect dialect) throws IOException {
        List<Reading> readings = read(Given.NOTHING);
        return readings.get(List.copyOf(files.keySet()).indexOf(dialect));
    }

    /**
     * A run's own configuration with what these files say. Defaults of the libraries give way to it; where DeepSpeed's file has an optimizer, a
     * schedule or a number type, TrainingArguments do not decide these, as in transformers.
     *
     * @param own the run's configuration; empty where it has none
     * @param settings keys with other values, which decide where files disagree
     * @param option that gives them
     * @throws InvalidOptionException when a file has mistakes or asks for what a run does not do, or when two disagree
     * @throws IOException when one cannot be read
     */
    public Merged merge(Section own, List<String> settings, String option) throws IOException {
        Section wanted = own.with(settings, option);
        List<Reading> readings = read(given(wanted));
        readings.forEach(Reading::requireHonoured);
        MergedSettings merged = new MergedSettings(own, wanted);
        for (boolean defaults : List.of(false, true)) {
            for (Reading reading : readings) {
                reading.settings().stream()
                        .filter(s -> s.isDefault() == defaults)
                        .forEach(s -> merged.add(reading, s));
            }
        }
        List<String> notes = new ArrayList<>();
        readings.forEach(r -> notes.addAll(r.notes()));
        notes.addAll(merged.notes());
        return new Merged(merged.section().with(settings, option), notes);
    }

    private static Given given(Section wanted) {
        return wanted.written().stream()
                .filter(w -> w.key().equals("steps") && w.value().matches("[0-9_]{1,18}"))
                .findFirst()
                .map(w -> Given.NOTHING.withSteps(Long.parseLong(w.value().replace("_", ""))))
                .orElse(Given.NOTHING);
    }
}
