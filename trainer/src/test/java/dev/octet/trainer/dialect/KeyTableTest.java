package dev.octet.trainer.dialect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.trainer.yaml.HjsonFile;
import dev.octet.trainer.yaml.Section;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Every documented key of DeepSpeed has a row, and every row a fate and a reason. */
@DisplayNameGeneration(ReplaceUnderscores.class)
class KeyTableTest {
    private static final Path KEYS = Path.of(System.getProperty("octet.testdata"), "golden/dialect/keys/deepspeed.txt");

    static List<KeyRule> rules() {
        return Dialect.DEEPSPEED.rules();
    }

    /** JSON that holds one key with a value of its type. */
    private static String json(String path, String value) {
        String[] names = path.replace("**", "any").replace("*", "any").split("\\.");
        return "{\"" + String.join("\": {\"", names) + "\": " + value + "}".repeat(names.length);
    }

    private static List<String> values(KeyRule rule) {
        return switch (rule.type()) {
            case FLAG -> List.of("true", "false");
            case WHOLE -> List.of("3", "1", "0");
            case NUMBER -> List.of("0.5", "0");
            case TEXT -> List.of("\"some\"", rule.standard().isEmpty() ? "\"fp32\"" : "\"" + rule.standard() + "\"");
            case LIST -> List.of("[1, 2]", "[]");
            case SECTION -> List.of("{}");
            case ANY -> List.of("3", "{\"a\": {\"b\": [1]}}", "[{\"a\": 1}]");
        };
    }

    @Test
    void every_key_that_deepspeed_reads_or_documents_has_a_row() throws IOException {
        Set<String> missing = new LinkedHashSet<>();
        for (String key : Files.readAllLines(KEYS)) {
            boolean hasRow = Dialect.DEEPSPEED
                    .keys()
                    .rule(key)
                    .filter(r -> !r.path().equals("optimizer.params.*"))
                    .isPresent();
            if (!hasRow && !Dialect.DEEPSPEED.keys().isKnown(key)) {
                missing.add(key);
            }
        }
        assertEquals(Set.of(), missing);
        assertTrue(Files.readAllLines(KEYS).size() > 450);
    }

    @ParameterizedTest
    @MethodSource("rules")
    void every_row_gives_its_key_a_fate_with_a_reason_or_a_mistake_whatever_its_value(KeyRule rule) {
        for (String value : values(rule)) {
            String json = json(rule.path(), value);
            Section file = HjsonFile.parse(json, "ds.json");
            Reading reading = Dialect.DEEPSPEED.read(file, Given.NOTHING);
            String key = rule.path().replace("**", "any").replace("*", "any");
            boolean free = rule.path().endsWith("**"); // a mapping there has rows of its own
            List<Reading.Row> rows = reading.rows().stream()
                    .filter(r -> r.key().equals(key) || (free && r.key().startsWith(key + ".")))
                    .filter(r -> r.line().isPresent())
                    .toList();
            long mistakes = reading.problems().stream()
                    .filter(p -> p.where().endsWith("key " + key))
                    .count();
            assertEquals(1, rows.size() + mistakes, json + ": " + reading.problems());
            for (Reading.Row row : rows) {
                assertFalse(row.becomes().isEmpty() && row.reason().isEmpty(), json);
                assertTrue(row.reason().isEmpty() || row.reason().endsWith("."), row.reason());
                assertTrue((row.fate() == Fate.APPLIED) == !row.becomes().isEmpty() || row.fate() == Fate.MAPPED, json);
            }
        }
    }

    @Test
    void no_text_of_the_table_is_longer_than_two_lines_of_a_terminal() {
        List<String> reasons = new ArrayList<>();
        rules().forEach(r -> reasons.add(
                switch (r.becomes()) {
                    case Becomes.NoEffect none -> none.reason();
                    case Becomes.Refused refused -> refused.reason();
                    case Becomes.Feature feature -> feature.reason();
                    case Becomes.Same _, Becomes.Decided _ -> "";
                }));
        assertEquals(List.of(), reasons.stream().filter(r -> r.length() > 160).toList());
    }
}
