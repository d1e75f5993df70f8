package dev.octet.pipeline.quickstart;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;

/**
 * What the quickstart's second half works on: a model whose weights have four bits learns from the original to make up for its rounding, on texts
 * without labels. Only its norms and biases are trained, which are not quantised: the weights keep their four bits. The files stay in the
 * folder, so that a user can do the same again.
 *
 * @param folder where everything lies
 */
public record Distillation(Path folder, QuickstartFiles files) {
    /** Steps of the run: two epochs of the texts that are not evaluated on. */
    public static final int STEPS = 74;

    /** Texts on which the run is evaluated as it continues: few of those held out, so that it takes seconds. */
    private static final int EVALUATED = 64;

    private static final String ORIGINAL = "original";
    private static final String FOUR_BITS = "all-minilm-l6-v2-nvfp4";
    private static final String STUDENT = "student";
    private static final String TRAINED = "trained";
    private static final String MODEL = "all-minilm-l6-v2-nvfp4-trained";
    private static final String CONFIG = "distil.yaml";
    private static final String TRAIN = "train.jsonl";
    private static final String EVAL = "eval.jsonl";
    private static final String HELD_OUT = "held-out.jsonl";
    private static final String RUN = "run";

    /** What is written in the folder. */
    public static final List<String> ENTRIES =
            List.of(ORIGINAL, FOUR_BITS, STUDENT, TRAINED, MODEL, CONFIG, TRAIN, EVAL, HELD_OUT, RUN);

    /** The original as a Hugging Face folder: the teacher. */
    public Path original() {
        return folder.resolve(ORIGINAL);
    }

    /** The original with weights in NVFP4, rounded to nearest. */
    public Path fourBits() {
        return folder.resolve(FOUR_BITS);
    }

    /** What learns: the numbers of these weights as F32. */
    public Path student() {
        return folder.resolve(STUDENT);
    }

    /** What has learned, as F32. */
    public Path trained() {
        return folder.resolve(TRAINED);
    }

    /** The model that the run ends in, with weights in NVFP4. */
    public Path model() {
        return folder.resolve(MODEL);
    }

    /** The configuration of the run. */
    public Path config() {
        return folder.resolve(CONFIG);
    }

    /** Texts that are evaluated on. */
    public Path heldOut() {
        return folder.resolve(HELD_OUT);
    }

    /** The run's folder. */
    public Path run() {
        return folder.resolve(RUN);
    }

    /**
     * Writes the texts and the configuration.
     *
     * @param glosses all texts
     * @param from first text that is evaluated on
     * @param to text after the last
     */
    public void prepare(Path glosses, int from, int to) throws IOException {
        List<String> lines = Files.readAllLines(glosses);
        List<String> train = new ArrayList<>(lines.subList(0, from));
        train.addAll(lines.subList(to, lines.size()));
        Files.write(folder.resolve(TRAIN), train);
        Files.write(heldOut(), lines.subList(from, to));
        Files.write(folder.resolve(EVAL), lines.subList(from, Math.min(to, from + EVALUATED)));
        Files.writeString(config(), """
            # the model with four-bit weights (student) learns to answer as the original (teacher)
            data: {train: %s, eval: %s, tokenizer: %s}
            loss: {type: mse, output: last_hidden_state, distillation: {teacher: %s}}
            batch_size: 16
            steps: %d
            optimizer: {type: adamw, lr: 4.0e-3, weight_decay: 0}
            schedule: {type: cosine, warmup: 4}
            train_only: ['LayerNorm|bias'] # what is not quantised: the weights keep their four bits
            eval_every: 37
            """.formatted(TRAIN, EVAL, files.tokenizer().toAbsolutePath(), ORIGINAL, STEPS));
    }

    /** Puts the tokenizer into a model's folder, where verbs look for it. */
    public void addTokenizer(Path model) throws IOException {
        Files.copy(files.tokenizer(), model.resolve("tokenizer.json"), StandardCopyOption.REPLACE_EXISTING);
    }
}
