package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.loss.LossValue;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Texts side by side in one sample, compared with the same texts in samples of their own. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PackedDocumentsTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final String TEMPLATE =
            TESTDATA.resolve("chat/templates/chatml.jinja").toString();

    @TempDir
    Path folder;

    /** After one step of plain SGD on all texts at once. */
    private record Trained(LossValue before, Map<String, float[]> weights, long samples) {}

    private Trained trained(String model, Path data, String keys, int batch) throws IOException {
        Path config = Files.writeString(
                folder.resolve("train.yaml"),
                "data: {train: '" + data + "', eval: '" + data + "', shuffle: false, chat_template: '" + TEMPLATE
                        + "', "
                        + keys + "}\nloss: {type: causal-lm}\nbatch_size: " + batch
                        + "\nsteps: 1\noptimizer: {type: sgd, lr: 1}\n");
        try (TrainingJob job = TrainingJob.open(TESTDATA.resolve("models").resolve(model), config);
                Arena arena = Arena.ofConfined()) {
            LossValue before = job.trainer().evaluate();
            job.trainer().step(1);
            Map<String, float[]> weights = new TreeMap<>();
            for (Map.Entry<String, Tensor> e : job.trainer().parameters(arena).entrySet()) {
                weights.put(e.getKey(), e.getValue().toFloats());
            }
            return new Trained(before, weights, job.train().count());
        }
    }

    private Path chats() throws IOException {
        return Files.write(
                folder.resolve("chats.jsonl"),
                List.of(chat("In the beginning", "God created the heaven"), chat("And the earth was", "without form")));
    }

    private static String chat(String user, String assistant) {
        return "{\"messages\": [{\"role\": \"user\", \"content\": \"" + user
                + "\"}, {\"role\": \"assistant\", \"content\": \"" + assistant + "\"}]}";
    }

    @ParameterizedTest
    @ValueSource(strings = {"tiny-lm/gpt2", "tiny-lm/llama", "tiny-hf/qwen2-window"})
    void loss_and_gradients_of_packed_texts_are_those_of_the_same_texts_alone(String model) throws IOException {
        boolean small = model.startsWith("tiny-hf");
        Path data = small ? tokens() : chats();
        String sequence = small ? "24" : "256";
        String tokenizer = small ? "tokenizer: '" + TESTDATA.resolve("tokenizer/words.json") + "', " : "";
        Trained alone = trained(model, data, tokenizer + "pad_multiple: 8", 2);
        Trained packed = trained(model, data, tokenizer + "pack: documents, sequence: " + sequence, 1);
        assertEquals(1, packed.samples());
        assertEquals(alone.before().positions(), packed.before().positions());
        assertEquals(alone.before().total(), packed.before().total(), 1e-6);
        assertTrue(distance(alone, packed) < 1e-6, "gradients differ by " + distance(alone, packed));
    }

    /** Sequences longer than the window of that model, which has 99 tokens. */
    private Path tokens() throws IOException {
        return Files.write(
                folder.resolve("tokens.jsonl"),
                List.of(
                        "{\"input_ids\": [5, 9, 13, 2, 8, 7, 4, 3, 11, 6]}",
                        "{\"input_ids\": [3, 12, 1, 6, 14, 10, 2, 9], \"labels\": [-100, -100, 1, 6, 14, 10, 2, 9]}"));
    }

    /** Largest difference of a weight. */
    private static double distance(Trained a, Trained b) {
        double largest = 0;
        for (String name : a.weights().keySet()) {
            float[] x = Objects.requireNonNull(a.weights().get(name));
            float[] y = Objects.requireNonNull(b.weights().get(name));
            for (int i = 0; i < x.length; i++) {
                largest = Math.max(largest, Math.abs(x[i] - y[i]));
            }
        }
        return largest;
    }

    @Test
    void texts_that_are_joined_see_each_other_and_have_another_loss() throws IOException {
        Trained alone = trained("tiny-lm/gpt2", chats(), "pad_multiple: 8", 2);
        Trained joined = trained("tiny-lm/gpt2", chats(), "pack: true, sequence: 100", 1);
        assertTrue(Math.abs(alone.before().total() - joined.before().total()) > 1e-3);
    }

    @Test
    void a_model_whose_mask_is_made_otherwise_is_refused() throws IOException {
        Files.copy(TESTDATA.resolve("tokenizer/words.json"), folder.resolve("tokenizer.json"));
        Path model = folder.resolve("m.onnx");
        Files.copy(TESTDATA.resolve("models/tiny-onnx/gpt2_eager_script17.onnx"), model);
        Path config = Files.writeString(
                folder.resolve("train.yaml"),
                "data: {train: '" + Files.writeString(folder.resolve("t.jsonl"), "{\"text\": \"The cat sat\"}\n")
                        + "', pack: documents, sequence: 8, eos: '[SEP]'}\n"
                        + "loss: {type: causal-lm}\n"
                        + "batch_size: 1\n"
                        + "steps: 1\n");
        UnsupportedModelException e = assertThrows(
                UnsupportedModelException.class,
                () -> TrainingJob.open(model, config).close());
        assertTrue(e.what().contains("cannot be kept apart in this model"), e.what());
    }

    @Test
    void losses_without_a_label_per_token_are_refused() throws IOException {
        Path config = Files.writeString(
                folder.resolve("train.yaml"),
                "data: {train: a.jsonl, pack: documents, sequence: 8}\nloss: {type: mse}\nsteps: 1\n");
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> TrainingJob.open(TESTDATA.resolve("models/tiny-lm/gpt2"), config)
                        .close());
        assertTrue(e.what().contains("are for causal-lm"), e.what());
    }
}
