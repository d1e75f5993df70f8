package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.trainer.dialect.Dialect;
import dev.octet.trainer.dialect.Given;
import dev.octet.trainer.dialect.Reading;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Runs from TrainingArguments and from Accelerate's YAML, and what docs/configs.md says of them. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OtherConfigsTest {
    private static final Path DATA = Path.of(System.getProperty("octet.testdata"));
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    Path folder;

    @Test
    void the_first_ten_losses_of_training_arguments_are_those_of_the_trainer() throws IOException {
        JsonNode golden = JSON.readTree(
                DATA.resolve("golden/dialect/transformers/losses.json").toFile());
        List<String> rows = new ArrayList<>();
        golden.get("tokens").forEach(t -> rows.add("{\"input_ids\": " + t + "}"));
        Files.write(folder.resolve("rows.jsonl"), rows);
        Files.writeString(folder.resolve("data.yaml"), "data: {train: rows.jsonl}\nloss: {type: causal-lm}\n");
        Files.writeString(folder.resolve("args.json"), golden.get("arguments").toString());
        CommandLine run = CommandLine.run(
                "train",
                DATA.resolve("models/tiny-lm/gpt2").toString(),
                "--hf-args",
                folder.resolve("args.json").toString(),
                "--config",
                folder.resolve("data.yaml").toString(),
                "-o",
                folder.resolve("run").toString());
        assertEquals(ExitCode.OK, run.code(), run.err());
        List<Double> losses = new ArrayList<>();
        for (String line : Files.readAllLines(folder.resolve("run/metrics.jsonl"))) {
            JsonNode step = JSON.readTree(line);
            if (step.has("loss")) {
                losses.add(step.get("loss").asDouble());
            }
        }
        assertEquals(10, losses.size());
        for (int i = 0; i < 10; i++) {
            assertEquals(golden.get("losses").get(i).asDouble(), losses.get(i), 1e-5, "step " + (i + 1));
        }
        assertTrue(Files.exists(folder.resolve("run/hf-args.json")));
    }

    @Test
    void every_row_of_accelerates_table_becomes_what_it_says() throws IOException {
        int rows = 0;
        for (String line : Files.readAllLines(DATA.resolveSibling("docs/configs.md"))) {
            if (!line.startsWith("| `{distributed_type")) {
                continue;
            }
            String[] cells = line.split("` \\| ", 2);
            Reading reading =
                    Dialect.ACCELERATE.read(YamlFile.parse(cells[0].substring(3), "accelerate.yaml"), Given.NOTHING);
            assertTrue(reading.isHonoured(), line + reading.problems());
            List<String> settings = reading.settings().stream()
                    .map(s -> s.key() + ": " + s.value())
                    .toList();
            for (String each : cells[1].replaceAll("^`|` \\|$", "").split("`, `", -1)) {
                assertTrue(settings.contains(each), each + " of " + settings);
            }
            rows++;
        }
        assertEquals(8, rows);
    }
}
