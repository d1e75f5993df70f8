package dev.octet.trainer.dialect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.optimizer.Schedule;
import dev.octet.trainer.precision.LossScaling;
import dev.octet.trainer.yaml.HjsonFile;
import dev.octet.trainer.yaml.Section;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;

/** Numbers of DeepSpeed's own functions (testdata/make/deepspeed_numbers.py, schedules.py) against the configuration that its JSON becomes. */
@DisplayNameGeneration(ReplaceUnderscores.class)
class DeepSpeedNumbersTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path GOLDEN = TESTDATA.resolve("golden/dialect/deepspeed");
    private static final String OWN = "data: {train: a.npz}\nloss: {type: mse}\n";

    private static Reading read(String json) {
        return Dialect.DEEPSPEED.read(HjsonFile.parse(json, "ds.json"), Given.NOTHING);
    }

    /** The run that a file becomes. */
    private static TrainingConfig run(String json, long steps) {
        Reading reading = read(json);
        reading.requireHonoured();
        Section all = YamlFile.parse(OWN + "steps: " + steps + "\n" + reading.yaml(List.of()), "train.yaml");
        return TrainingConfig.of(all, Path.of(""));
    }

    @Test
    void batch_sizes_are_solved_and_refused_as_deepspeed_does() throws IOException {
        List<String> wrong = new ArrayList<>();
        for (String row : Files.readAllLines(GOLDEN.resolve("batches.csv"))) {
            String[] cells = row.split(",", -1);
            String[] names = {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"};
            List<String> members = new ArrayList<>(List.of("\"bf16\": {\"enabled\": true}"));
            for (int i = 0; i < 3; i++) {
                if (!cells[i].isEmpty()) {
                    members.add("\"" + names[i] + "\": " + cells[i]);
                }
            }
            String json = "{" + String.join(", ", members) + "}";
            Reading reading = read(json);
            String ours = "refused";
            if (reading.isHonoured()) {
                TrainingConfig config = run(json, 10);
                ours = config.batchSize() * config.gradientAccumulation() + "," + config.batchSize() + ","
                        + config.gradientAccumulation();
            }
            if (!ours.equals(String.join(",", Arrays.copyOfRange(cells, 3, cells.length)))) {
                wrong.add(row + " but " + ours);
            }
        }
        assertEquals(List.of(), wrong);
    }

    @Test
    void loss_scales_move_as_in_deepspeed_with_zero_and_without() throws IOException {
        for (String row : Files.readAllLines(GOLDEN.resolve("scales.csv"))) {
            String[] cells = row.split(",", -1);
            TrainingConfig config = run(
                    String.format(
                            Locale.ROOT,
                            "{train_batch_size: 1, zero_optimization: {stage: %s}, fp16: {enabled: true,"
                                    + " initial_scale_power: %s, loss_scale_window: %s, hysteresis: %s,"
                                    + " consecutive_hysteresis: %s, min_loss_scale: %s}}",
                            (Object[]) Arrays.copyOf(cells, 6)),
                    10);
            LossScaling scaling = config.precision().scaling();
            LossScaling.State state = scaling.initial();
            List<String> ours = new ArrayList<>();
            for (char overflow : cells[6].toCharArray()) {
                ours.add(String.format(Locale.ROOT, "%.0f", state.scale()));
                if (ours.size() == cells[7].split(" ").length) {
                    break;
                }
                state = scaling.next(state, overflow == '1');
            }
            List<String> theirs = Arrays.stream(cells[7].split(" "))
                    .map(s -> String.format(Locale.ROOT, "%.0f", Double.parseDouble(s)))
                    .toList();
            assertEquals(theirs, ours, row);
        }
    }

    @Test
    void learning_rates_of_whole_runs_are_those_of_deepspeed_and_torch() throws IOException {
        int runs = 0;
        for (String row : Files.readAllLines(TESTDATA.resolve("golden/training/rates.csv"))) {
            String[] cells = row.split("\\|", -1);
            if (!Character.isUpperCase(cells[0].charAt(0))) {
                continue;
            }
            String params = Arrays.stream(cells[1].split(" "))
                    .filter(o -> !o.isEmpty())
                    .map(o -> o.contains(",") ? o.replace("=", "=[") + "]" : o)
                    .map(o -> "\"" + o.replace("=", "\": ").replaceAll(": ([a-z][a-z_0-9]*)$", ": \"$1\""))
                    .map(o -> o.replace("\"true\"", "true").replace("\"false\"", "false"))
                    .collect(Collectors.joining(", "));
            TrainingConfig config = run(
                    "{\"train_batch_size\": 1, \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": " + cells[2]
                            + "}}, \"scheduler\": {\"type\": \"" + cells[0] + "\", \"params\": {" + params + "}}}",
                    Long.parseLong(cells[4]));
            Schedule schedule = config.schedule().schedule(config.optimizer().lr(), config.steps());
            String[] rates = cells[5].split(" ", -1);
            for (int i = 0; i < rates.length; i++) {
                assertEquals(
                        Double.parseDouble(rates[i]), schedule.rate(i), 1e-12, row.substring(0, 80) + " step " + i);
            }
            runs++;
        }
        assertTrue(runs >= 38, runs + " runs");
    }

    @Test
    void a_warm_up_of_deepspeed_begins_with_two_steps_at_the_least_rate() {
        TrainingConfig config = run(
                "{train_batch_size: 1, optimizer: {type: \"AdamW\", params: {lr: 1e-3}},"
                        + " scheduler: {type: \"WarmupLR\", params: {warmup_num_steps: 4, warmup_type: \"linear\"}}}",
                10);
        Schedule schedule = config.schedule().schedule(config.optimizer().lr(), 10);
        assertEquals(0, schedule.rate(0));
        assertEquals(0, schedule.rate(1));
        assertEquals(0.25e-3, schedule.rate(2), 1e-15);
        assertFalse(schedule.rate(5) < 1e-3);
    }
}
