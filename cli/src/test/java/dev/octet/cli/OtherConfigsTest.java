package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
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

    private String lastOutput = "";

    private static JsonNode golden() throws IOException {
        return JSON.readTree(
                DATA.resolve("golden/dialect/transformers/losses.json").toFile());
    }

    /** Trains tiny GPT-2 from TrainingArguments and gives the lines of metrics.jsonl. */
    private List<JsonNode> train(ObjectNode arguments, int samples) throws IOException {
        List<String> rows = new ArrayList<>();
        golden().get("tokens").forEach(t -> rows.add("{\"input_ids\": " + t + "}"));
        Files.write(folder.resolve("rows.jsonl"), rows.subList(0, samples));
        Files.write(folder.resolve("eval.jsonl"), rows.subList(samples, rows.size()));
        String eval = samples == rows.size() ? "" : ", eval: eval.jsonl";
        Files.writeString(
                folder.resolve("data.yaml"), "data: {train: rows.jsonl" + eval + "}\nloss: {type: causal-lm}\n");
        Files.writeString(folder.resolve("args.json"), arguments.toString());
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
        lastOutput = run.out();
        List<JsonNode> lines = new ArrayList<>();
        for (String line : Files.readAllLines(folder.resolve("run/metrics.jsonl"))) {
            lines.add(JSON.readTree(line));
        }
        return lines;
    }

    private static List<Double> numbers(List<JsonNode> lines, String key) {
        return lines.stream()
                .filter(l -> l.has(key))
                .map(l -> l.get(key).asDouble())
                .toList();
    }

    private static void requireNear(JsonNode expected, List<Double> found, double tolerance) {
        assertEquals(expected.size(), found.size());
        for (int i = 0; i < found.size(); i++) {
            assertEquals(expected.get(i).asDouble(), found.get(i), tolerance, "number " + (i + 1));
        }
    }

    @Test
    void the_first_ten_losses_of_training_arguments_are_those_of_the_trainer() throws IOException {
        List<JsonNode> lines = train(golden().get("arguments").deepCopy(), 48);
        requireNear(golden().get("losses"), numbers(lines, "loss"), 1e-5);
        assertTrue(Files.exists(folder.resolve("run/hf-args.json")));
    }

    @Test
    void with_smoothed_labels_they_are_the_trainers_too() throws IOException {
        ObjectNode arguments = golden().get("arguments").deepCopy();
        List<JsonNode> lines = train(arguments.put("label_smoothing_factor", 0.1), 48);
        requireNear(golden().get("smoothed"), numbers(lines, "loss"), 1e-5);
    }

    @Test
    void evaluations_rates_on_a_plateau_and_the_best_checkpoint_are_the_trainers() throws IOException {
        JsonNode golden = golden().get("epochs");
        List<JsonNode> lines = train(golden.get("arguments").deepCopy(), 40);
        requireNear(golden.get("rates"), numbers(lines, "lr"), 0);
        requireNear(golden.get("eval_losses"), numbers(lines, "eval_loss"), 2e-3);
        long best = golden.get("best").asLong();
        assertTrue(Files.exists(folder.resolve("run/checkpoints/step-" + best)));
        assertTrue(lastOutput.contains("best checkpoint  step " + best), lastOutput);
        CommandLine export = CommandLine.run(
                "export",
                folder.resolve("run").toString(),
                "-o",
                folder.resolve("best.safetensors").toString(),
                "--target",
                "safetensors",
                "--step",
                "best",
                "--json");
        assertEquals(ExitCode.OK, export.code(), export.err());
        assertEquals(best, JSON.readTree(export.out()).get("step").asLong());
    }

    @Test
    void an_evaluation_before_the_first_step_and_a_delay_come_when_the_trainer_has_them() throws IOException {
        JsonNode golden = golden().get("delayed");
        List<JsonNode> lines = train(golden.get("arguments").deepCopy(), 40);
        List<JsonNode> evaluations =
                lines.stream().filter(l -> l.has("eval_loss")).toList();
        requireNear(golden.get("eval_steps"), numbers(evaluations, "step"), 0);
        requireNear(golden.get("eval_losses"), numbers(evaluations, "eval_loss"), 2e-3);
        assertEquals(
                golden.get("eval_losses").get(0).asDouble(),
                numbers(evaluations, "eval_loss").getFirst(),
                1e-5);
        requireNear(golden.get("rates"), numbers(lines, "lr"), 0);
        long best = golden.get("best").asLong();
        assertTrue(lastOutput.contains("best checkpoint  step " + best), lastOutput);
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
        assertEquals(12, rows);
    }
}
