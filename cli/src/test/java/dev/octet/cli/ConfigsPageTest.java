package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.trainer.dialect.Dialect;
import dev.octet.trainer.dialect.Fate;
import dev.octet.trainer.dialect.Given;
import dev.octet.trainer.dialect.Reading;
import dev.octet.trainer.yaml.HjsonFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** docs/configs.md against the program. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ConfigsPageTest {
    private static final Path PAGE =
            Path.of(System.getProperty("octet.testdata")).resolveSibling("docs/configs.md");
    private static final Pattern CODE = Pattern.compile("`([^`]+)`");

    @TempDir
    Path folder;

    private static List<String> codes(String cell) {
        List<String> codes = new ArrayList<>();
        Matcher matcher = CODE.matcher(cell);
        while (matcher.find()) {
            codes.add(matcher.group(1));
        }
        return codes;
    }

    private static Reading read(String members) {
        String batch = members.contains("train_batch_size") ? "" : "\"train_batch_size\": 8, ";
        return Dialect.DEEPSPEED.read(HjsonFile.parse("{" + batch + members + "}", "ds.json"), Given.NOTHING);
    }

    @Test
    void every_row_of_the_table_of_deepspeed_becomes_what_it_says() throws IOException {
        int rows = 0;
        for (String line : Files.readAllLines(PAGE)) {
            if (!line.startsWith("| `\"")) {
                continue;
            }
            String[] cells = line.split(" \\| ", 2);
            Reading reading = read(codes(cells[0]).getFirst());
            assertTrue(reading.isHonoured(), line + reading.problems());
            List<String> settings = reading.settings().stream()
                    .map(s -> s.key() + ": " + s.value())
                    .toList();
            for (String setting : codes(cells[1])) {
                assertTrue(settings.contains(setting), setting + " is not in " + settings + "\n" + line);
            }
            rows++;
        }
        assertTrue(rows > 15, rows + " rows");
    }

    @Test
    void what_the_page_says_is_refused_is_refused_where_it_is_turned_on() {
        for (String members : List.of(
                "\"sequence_parallel_size\": 2",
                "\"expert_parallel\": {\"enabled\": true}",
                "\"optimizer\": {\"type\": \"OneBitAdam\"}",
                "\"elasticity\": {\"enabled\": true}",
                "\"autotuning\": {\"enabled\": true}",
                "\"curriculum_learning\": {\"enabled\": true}",
                "\"progressive_layer_drop\": {\"enabled\": true}",
                "\"compression_training\": {\"row_pruning\": {\"shared_parameters\": {\"enabled\": true}}}",
                "\"sparse_attention\": {\"mode\": \"fixed\"}",
                "\"hybrid_engine\": {\"enabled\": true}")) {
            assertEquals(1, read(members).rows(Fate.REFUSED).size(), members);
            String off = members.replace("true", "false");
            if (!off.equals(members)) {
                assertTrue(read(off).isHonoured(), off);
            }
        }
    }

    @Test
    void the_words_of_the_table_of_fates_are_those_of_the_program() throws IOException {
        String page = Files.readString(PAGE);
        for (Fate fate : Fate.values()) {
            assertTrue(page.contains("\n| `" + fate.text() + "` | "), fate.text());
        }
    }

    @Test
    void the_default_of_clipping_changes_where_the_page_says() throws IOException {
        assertTrue(Files.readString(PAGE).contains("is 1.0 from version 0.19.3 on"));
        for (String version : List.of("0.19.3", "0.19.2", "0.9.10", "0.20", "1.0.0")) {
            Path file = Files.writeString(folder.resolve("ds.json"), "{\"train_batch_size\": 2}");
            CommandLine run = CommandLine.run("config", file.toString(), "--deepspeed-version", version, "--json");
            JsonNode answer = new ObjectMapper().readTree(run.out());
            boolean clips = !version.equals("0.19.2") && !version.equals("0.9.10");
            assertEquals(clips, answer.get("yaml").asText().contains("clip_grad_norm"), version);
        }
    }
}
