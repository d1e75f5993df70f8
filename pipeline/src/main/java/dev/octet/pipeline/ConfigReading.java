package dev.octet.pipeline;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.file.AtomicFile;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.dialect.Dialect;
import dev.octet.trainer.dialect.DialectFiles;
import dev.octet.trainer.dialect.Fate;
import dev.octet.trainer.dialect.Reading;
import dev.octet.trainer.yaml.Section;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * {@code octet config}: what a configuration of DeepSpeed, Accelerate or transformers really does in a run here, key by key, and the
 * configuration it becomes.
 */
public final class ConfigReading {
    private static final String OWN = "Octet";

    private ConfigReading() {}

    /**
     * What to read.
     *
     * @param file of any of these libraries, or a configuration of a run here
     * @param arguments TrainingArguments that fill {@code "auto"} of a file of DeepSpeed
     * @param version of DeepSpeed whose defaults count; empty for the newest
     * @param output where the configuration is written that the file becomes; empty for nowhere
     * @param device that a run would compute on
     */
    public record Request(
            Path file, Optional<Path> arguments, Optional<String> version, Optional<Path> output, DeviceName device) {
        /** A file alone. */
        public static Request of(Path file) {
            return new Request(file, Optional.empty(), Optional.empty(), Optional.empty(), DeviceName.CPU);
        }

        /** The same with TrainingArguments. */
        public Request withArguments(Path json) {
            return new Request(file, Optional.of(json), version, output, device);
        }

        /** The same with a version of DeepSpeed. */
        public Request withVersion(String newVersion) {
            return new Request(file, arguments, Optional.of(newVersion), output, device);
        }

        /** The same, written. */
        public Request withOutput(Path yaml) {
            return new Request(file, arguments, version, Optional.of(yaml), device);
        }

        /** The same for a run on another device. */
        public Request withDevice(DeviceName other) {
            return new Request(file, arguments, version, output, other);
        }
    }

    /**
     * What was read.
     *
     * @param library whose configuration it is
     * @param honoured whether a run can do all that it asks for
     * @param keys of the file in its order, then defaults that matter
     * @param problems mistakes in the file
     * @param yaml the configuration it becomes; of what is refused nothing is in it
     * @param output where that was written; null where it was not
     */
    public record Result(
            String file,
            String library,
            boolean honoured,
            List<Key> keys,
            List<Reading.Problem> problems,
            String yaml,
            @Nullable String output) {
        public Result {
            keys = List.copyOf(keys);
            problems = List.copyOf(problems);
        }

        /** How many keys of the file, or defaults, have this fate. */
        public long count(Fate fate) {
            return keys.stream().filter(k -> k.fate().equals(fate.text())).count();
        }
    }

    /**
     * One key.
     *
     * @param line where it is written; null for a default
     * @param fate applied, mapped, no effect or refused
     * @param becomes the settings here; empty where there are none
     * @param reason one sentence; may be empty
     */
    public record Key(String key, String value, @Nullable Integer line, String fate, String becomes, String reason) {
        private static Key of(Reading.Row row) {
            Integer line = row.line().isPresent() ? row.line().getAsInt() : null;
            return new Key(row.key(), row.value(), line, row.fate().text(), row.becomes(), row.reason());
        }
    }

    /**
     * Reads a file, and writes the configuration that it becomes where a run can do all it asks for.
     *
     * @throws InvalidOptionException when the file is neither JSON nor YAML, or is no configuration that is known
     * @throws IOException when a file cannot be read or written
     */
    public static Result run(Request request) throws IOException {
        Section file = DialectFiles.parse(request.file());
        Optional<Dialect> dialect = TrainingConfig.knows(file) ? Optional.empty() : Dialect.of(file);
        if (dialect.isEmpty()) {
            return own(request, file);
        }
        DialectFiles files = DialectFiles.NONE
                .with(dialect.get(), request.file())
                .on(request.device().isGpu());
        if (request.arguments().isPresent()) {
            if (dialect.get() == Dialect.TRANSFORMERS) {
                throw new InvalidOptionException(
                        "the file holds TrainingArguments itself",
                        request.file().toString(),
                        "leave out --hf-args");
            }
            files = files.with(Dialect.TRANSFORMERS, request.arguments().get());
        }
        if (request.version().isPresent()) {
            files = files.withVersion(request.version().get());
        }
        Reading reading = files.read(dialect.get());
        String yaml = reading.yaml(head(reading));
        return new Result(
                reading.file(),
                dialect.get().library(),
                reading.isHonoured(),
                reading.rows().stream().map(Key::of).toList(),
                reading.problems(),
                yaml,
                reading.isHonoured() ? write(yaml, request.output()) : null);
    }

    /** Comments over the configuration: where it comes from, what of it is missing. */
    private static List<String> head(Reading reading) {
        List<String> head = new ArrayList<>();
        head.add("what " + name(reading) + " of " + reading.dialect().library() + " asks for");
        List<String> refused =
                reading.rows(Fate.REFUSED).stream().map(Reading.Row::key).toList();
        if (!refused.isEmpty()) {
            head.add("refused, and not in here: " + String.join(", ", refused));
        }
        List<String> missing = new ArrayList<>();
        for (String key : List.of("data", "loss", "steps")) {
            boolean there = reading.settings().stream()
                    .anyMatch(s -> s.key().equals(key)
                            || s.key().startsWith(key + ".")
                            || (key.equals("steps") && s.key().equals("epochs")));
            if (!there) {
                missing.add(key);
            }
        }
        if (!missing.isEmpty()) {
            head.add("add " + String.join(", ", missing) + ": "
                    + reading.dialect().library() + " has no keys for them");
        }
        return head;
    }

    private static String name(Reading reading) {
        Path name = Path.of(reading.file()).getFileName();
        return name == null ? reading.file() : name.toString();
    }

    /** A configuration of a run here means what it says. */
    private static Result own(Request request, Section file) throws IOException {
        if (!TrainingConfig.knows(file)) {
            throw new InvalidOptionException(
                    "neither DeepSpeed, Accelerate, transformers nor Octet has these keys: "
                            + String.join(", ", file.keys()),
                    request.file().toString(),
                    "give a DeepSpeed JSON, the YAML of accelerate config, TrainingArguments as JSON, or a"
                            + " configuration of octet train");
        }
        TrainingConfig.of(file, RunFolder.parent(request.file()));
        List<Key> keys = file.written().stream()
                .filter(w -> w.kind() != Section.Kind.MAPPING)
                .map(w -> new Key(w.key(), w.value(), w.line(), Fate.APPLIED.text(), w.key() + ": " + w.value(), ""))
                .toList();
        String yaml = Files.readString(request.file());
        return new Result(request.file().toString(), OWN, true, keys, List.of(), yaml, write(yaml, request.output()));
    }

    private static @Nullable String write(String yaml, Optional<Path> output) throws IOException {
        if (output.isEmpty()) {
            return null;
        }
        try (AtomicFile file = AtomicFile.create(output.get())) {
            file.write(ByteBuffer.wrap(yaml.getBytes(StandardCharsets.UTF_8)));
            file.commit();
        }
        return output.get().toString();
    }
}
