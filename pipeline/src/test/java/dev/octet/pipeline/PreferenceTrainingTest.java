package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.OctetException;
import dev.octet.trainer.step.StepResult;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code loss: {type: dpo}} against torch. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PreferenceTrainingTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path MODEL = TESTDATA.resolve("models/tiny-lm/gpt2");
    private static final Path PAIRS = TESTDATA.resolve("chat/preferences.jsonl");

    @TempDir
    Path folder;

    private Path config(Path data, String loss, String more) throws IOException {
        return Files.writeString(
                folder.resolve("train.yaml"),
                "data: {train: '" + data + "', eval: '" + data + "', shuffle: false}\nloss: {type: dpo" + loss
                        + "}\nbatch_size: 4\nsteps: 20\noptimizer: {type: adamw, lr: 5.0e-4}\n" + more);
    }

    @ParameterizedTest
    @ValueSource(doubles = {0, 0.1})
    void losses_and_rewards_of_twenty_steps_are_those_of_torch(double smoothing) throws IOException {
        String keys = ", beta: 0.3" + (smoothing > 0 ? ", label_smoothing: " + smoothing : "");
        List<String> golden = Files.readAllLines(TESTDATA.resolve("golden/training/dpo.csv")).stream()
                .filter(l -> l.startsWith(smoothing + ","))
                .toList();
        assertEquals(20, golden.size());
        try (TrainingJob job = TrainingJob.open(MODEL, config(PAIRS, keys, ""))) {
            assertEquals(12, job.train().count());
            for (int step = 1; step <= 20; step++) {
                StepResult result = job.trainer().step(step);
                String[] expected = golden.get(step - 1).split(",", -1);
                String where = "step " + step;
                assertEquals(Double.parseDouble(expected[2]), result.loss(), 1e-5, where);
                String[] names = {"chosen", "rejected", "margins", "accuracies"};
                for (int i = 0; i < names.length; i++) {
                    double got = Objects.requireNonNull(result.lossParts().get("rewards/" + names[i]));
                    // a reward is a sum over up to 40 tokens of numbers around 7, times beta
                    assertEquals(Double.parseDouble(expected[3 + i]), got, 1e-4, where + ", " + names[i]);
                }
            }
        }
    }

    @Test
    void before_the_first_step_every_reward_is_zero_with_an_adapter_too() throws IOException {
        String adapter = "adapter: {peft_type: LORA, r: 4, lora_alpha: 8, target_modules: all-linear}\n";
        for (String more : List.of("", adapter, "precision: {mode: bf16}\n")) {
            try (TrainingJob job = TrainingJob.open(MODEL, config(PAIRS, "", more))) {
                double narrow = more.contains("bf16") ? 1e-2 : 1e-6;
                assertEquals(Math.log(2), job.trainer().evaluate().total(), narrow, more);
                assertEquals(12, job.trainer().evaluate().positions());
                double first = job.trainer().step(1).loss();
                for (int step = 2; step <= 6; step++) {
                    job.trainer().step(step);
                }
                assertEquals(Math.log(2), first, narrow, more);
                double margin =
                        Objects.requireNonNull(job.trainer().evaluate().parts().get("rewards/margins"));
                assertTrue(margin > 0, more + margin);
            }
        }
    }

    @Test
    void a_run_writes_rewards_and_resumed_has_the_same_numbers() throws IOException {
        Path config = config(PAIRS, "", "");
        Path whole = folder.resolve("whole");
        Path parts = folder.resolve("parts");
        Job job = Job.defaults();
        Train.run(Train.Request.of(MODEL, config, whole).withSteps(5), job);
        Train.run(Train.Request.of(MODEL, config, parts).withSteps(2), job);
        Train.run(Train.Request.ofRun(parts).withSteps(3), job);
        List<JsonNode> expected = steps(whole);
        List<JsonNode> got = steps(parts);
        assertEquals(5, got.size());
        for (int i = 0; i < 5; i++) {
            for (String name :
                    List.of("loss", "rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies")) {
                assertTrue(got.get(i).path(name).isNumber(), name);
                assertEquals(expected.get(i).path(name), got.get(i).path(name), name);
            }
        }
        assertArrayEquals(weights(whole), weights(parts));
    }

    private static byte[] weights(Path run) throws IOException {
        return Files.readAllBytes(run.resolve("checkpoints/step-5/parameters.safetensors"));
    }

    private static List<JsonNode> steps(Path run) throws IOException {
        ObjectMapper json = new ObjectMapper();
        List<JsonNode> lines = new ArrayList<>();
        for (String line : Files.readAllLines(run.resolve("metrics.jsonl"))) {
            JsonNode read = json.readTree(line);
            if (read.has("loss")) {
                lines.add(read);
            }
        }
        return lines;
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '@',
            quoteCharacter = '`',
            value = {
                "type: dpo, beta: 0 @ with a beta of 0 nothing is learnt",
                "type: dpo, label_smoothing: 0.5 @ half of the pairs swapped say nothing",
                "type: dpo, distillation: {teacher: t.onnx} @ compared with the model itself",
                "type: causal-lm, beta: 0.1 @ only type: dpo has a beta",
            })
    void keys_that_make_no_sense_are_refused(String loss, String what) throws IOException {
        Path config = Files.writeString(
                folder.resolve("train.yaml"), "data: {train: a.jsonl}\nloss: {" + loss + "}\nsteps: 1\n");
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> TrainingJob.open(MODEL, config).close());
        assertTrue(e.what().contains(what), e.what());
    }

    @Test
    void data_without_pairs_is_refused() throws IOException {
        Path texts = Files.writeString(folder.resolve("t.jsonl"), "{\"text\": \"In the beginning\"}\n");
        OctetException e = assertThrows(
                InvalidDataException.class,
                () -> TrainingJob.open(MODEL, config(texts, "", "")).close());
        assertTrue(e.fix().contains("\"chosen\" and \"rejected\""), e.fix());
        Path same = Files.writeString(
                folder.resolve("u.jsonl"),
                "{\"chosen\": [{\"role\": \"user\", \"content\": \"a\"}], \"rejected\": [{\"role\": \"user\","
                        + " \"content\": \"b\"}]}\n");
        Path config = Files.writeString(
                folder.resolve("u.yaml"),
                "data: {train: '" + same + "', chat_template: '" + TESTDATA.resolve("chat/templates/chatml.jinja")
                        + "'}\nloss: {type: dpo}\nsteps: 1\n");
        OctetException none = assertThrows(
                InvalidDataException.class,
                () -> TrainingJob.open(MODEL, config).close());
        assertTrue(none.what().contains("have no prompt"), none.what());
    }
}
