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
 */
public record DialectFiles(Map<Dialect, Path> files, Optional<String> version) {
    /** None. */
    public static final DialectFiles NONE = new DialectFiles(Map.of(), Optional.empty());

    /**
     * A configuration that other libraries' are part of.
     *
     * @param section all of it
     * @param readings what each file really does
     */
    public record Merged(Section section, List<Reading> readings) {
        public Merged {
            readings = List.copyOf(readings);
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
        return new DialectFiles(more, version);
    }

    /** The same with a version of DeepSpeed. */
    public DialectFiles withVersion(String newVersion) {
        return new DialectFiles(files, Optional.of(newVersion));
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
        Given all = version.isPresent() ? given.withVersion(version.get()) : given;
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
     * A run's own configuration with what these files say. Defaults of the libraries give way to it.
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
        Map<String, String> values = new HashMap<>();
        Map<String, String> places = new HashMap<>();
        own.written().forEach(w -> {
            values.put(w.key(), w.value());
            places.put(w.key(), w.where());
        });
        List<String> decided = settings.stream().map(s -> s.split("=", 2)[0].strip()).toList();
        List<String> conflicts = new ArrayList<>();
        List<String> where = new ArrayList<>();
        Section all = own;
        for (boolean defaults : List.of(false, true)) {
            for (Reading reading : readings) {
                for (Setting setting : reading.settings()) {
                    String there = values.get(setting.key());
                    if (setting.isDefault() != defaults) {
                        continue;
                    }
                    if (there == null) {
                        all = all.with(setting.key(), setting.value(), reading.file() + ", " + setting.from());
                        values.put(setting.key(), setting.value());
                        places.put(setting.key(), reading.file());
                    } else if (!defaults && !setting.isSame(there) && !decided.contains(setting.key())) {
                        conflicts.add(setting.key() + " is " + there + ", but " + setting.from() + " asks for "
                                + setting.value());
                        where.add(places.get(setting.key()) + " and " + reading.file());
                    }
                }
            }
        }
        if (!conflicts.isEmpty()) {
            throw new InvalidOptionException(
                    String.join("; ", conflicts),
                    String.join("; ", where),
                    "keep one of them, or decide with --set KEY=VALUE");
        }
        return new Merged(all.with(settings, option), readings);
    }

    private static Given given(Section wanted) {
        return wanted.written().stream()
                .filter(w -> w.key().equals("steps") && w.value().matches("[0-9_]{1,18}"))
                .findFirst()
                .map(w -> Given.NOTHING.withSteps(Long.parseLong(w.value().replace("_", ""))))
                .orElse(Given.NOTHING);
    }
}
