package dev.octet.trainer.dialect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.trainer.optimizer.ScheduleType;
import dev.octet.trainer.yaml.HjsonFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Every key of Accelerate and of TrainingArguments, as the installed packages name them, has a row, and every row a fate and a reason. */
@DisplayNameGeneration(ReplaceUnderscores.class)
class OtherKeyTablesTest {
    private static final Path KEYS = Path.of(System.getProperty("octet.testdata"), "golden/dialect/keys");

    private static List<String> lines(String name) throws IOException {
        return Files.readAllLines(KEYS.resolve(name));
    }

    @Test
    void every_key_of_accelerates_schema_has_a_row() throws IOException {
        Set<String> missing = new LinkedHashSet<>();
        for (String line : lines("accelerate.txt")) {
            String[] parts = line.split(" ", -1);
            String key = Set.of("top", "sagemaker").contains(parts[0]) ? parts[1] : parts[0] + "." + parts[1];
            if (!Dialect.ACCELERATE.keys().isKnown(key)) {
                missing.add(key);
            }
        }
        assertEquals(Set.of(), missing);
        assertTrue(lines("accelerate.txt").size() > 140);
    }

    @Test
    void every_field_of_training_arguments_has_a_row() throws IOException {
        Set<String> missing = new LinkedHashSet<>();
        for (String line : lines("transformers.txt")) {
            String[] parts = line.split(" ", -1);
            if (parts[0].equals("key") && !Dialect.TRANSFORMERS.keys().isKnown(parts[1])) {
                missing.add(parts[1]);
            }
        }
        assertEquals(Set.of(), missing);
    }

    @Test
    void every_optimizer_and_schedule_of_transformers_is_mapped_or_refused_with_a_reason() throws IOException {
        long read = 0;
        for (String line : lines("transformers.txt")) {
            String[] parts = line.split(" ", -1);
            if (parts[0].equals("key")) {
                continue;
            }
            String json =
                    "{\"" + parts[0] + "\": \"" + parts[1] + "\", \"max_steps\": 10, \"eval_strategy\": \"epoch\"}";
            Reading reading = Dialect.TRANSFORMERS.read(HjsonFile.parse(json, "args.json"), Given.NOTHING);
            assertEquals(List.of(), reading.problems(), json);
            read += reading.rows().stream()
                    .filter(r -> r.key().equals(parts[0]))
                    .filter(r -> !r.becomes().isEmpty() || r.fate() == Fate.REFUSED)
                    .count();
        }
        assertEquals(
                lines("transformers.txt").stream()
                        .filter(l -> !l.startsWith("key"))
                        .count(),
                read);
        assertTrue(ScheduleType.byName().size() > 8);
    }

    private static List<String> values(KeyRule rule) {
        return switch (rule.type()) {
            case FLAG -> List.of("true", "false");
            case WHOLE -> List.of("3", "1", "0", "-1");
            case NUMBER -> List.of("0.5", "0", "7");
            case TEXT ->
                List.of("\"some\"", rule.standard().isEmpty() ? "\"max\"" : "\"" + rule.standard() + "\"", "\"nvme\"");
            case LIST -> List.of("[1, 2]", "[]");
            case SECTION -> List.of("{}");
            case ANY -> List.of("3", "{\"a\": {\"b\": [1]}}", "[true, false, false]", "\"text\"");
        };
    }

    @ParameterizedTest
    @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "DEEPSPEED")
    void every_row_gives_its_key_a_fate_with_a_reason_or_a_mistake_whatever_its_value(Dialect dialect) {
        for (KeyRule rule : dialect.rules()) {
            String key = rule.path().replace("**", "any");
            for (String value : values(rule)) {
                for (String around : surroundings(dialect, key)) {
                    String[] names = key.split("\\.");
                    String json = "{" + around + "\"" + String.join("\": {\"", names) + "\": " + value
                            + "}".repeat(names.length);
                    Reading reading = dialect.read(HjsonFile.parse(json, "file"), Given.NOTHING);
                    boolean free = rule.path().endsWith("**");
                    List<Reading.Row> rows = reading.rows().stream()
                            .filter(r -> r.key().equals(key) || (free && r.key().startsWith(key + ".")))
                            .filter(r -> r.line().isPresent())
                            .toList();
                    long mistakes = reading.problems().stream()
                            .filter(p -> p.where().endsWith("key " + key))
                            .count();
                    assertTrue(
                            (rows.size() == 1 && mistakes == 0) || (rows.isEmpty() && mistakes >= 1),
                            json + ": " + reading.problems());
                    for (Reading.Row row : rows) {
                        assertFalse(row.becomes().isEmpty() && row.reason().isEmpty(), json);
                        assertTrue(row.reason().isEmpty() || row.reason().endsWith("."), row.reason());
                        assertTrue(row.reason().length() <= 180, row.reason());
                    }
                }
            }
        }
    }

    /** Keys that decide what others mean. */
    private static List<String> surroundings(Dialect dialect, String key) {
        if (dialect == Dialect.TRANSFORMERS) {
            return key.equals("max_steps") ? List.of("") : List.of("", "\"max_steps\": 10, ");
        }
        if (key.equals("distributed_type") || key.equals("mixed_precision")) {
            return List.of("");
        }
        Stream<String> types = Stream.of("NO", "FSDP", "DEEPSPEED", "MEGATRON_LM");
        if (key.startsWith("fp8_config")) {
            return Stream.of("TE", "MSAMP", "AO")
                    .map(b -> key.endsWith("backend")
                            ? "\"distributed_type\": \"NO\", \"mixed_precision\": \"fp8\", "
                            : "\"distributed_type\": \"NO\", \"mixed_precision\": \"fp8\", \"fp8_config\":"
                                    + " {\"fp8_backend\": \""
                                    + b + "\"}, ")
                    .filter(a -> !a.contains("\"fp8_config\""))
                    .toList();
        }
        return types.map(t -> "\"distributed_type\": \"" + t + "\", ").toList();
    }
}
