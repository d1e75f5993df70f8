package dev.octet.pipeline.quickstart;

import dev.octet.converter.Conversion;
import dev.octet.converter.Converter;
import dev.octet.converter.TrainedModel;
import dev.octet.formats.ModelFile;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * What the quickstart's second half needs: a student that learns from the original to make up for its own rounding, on texts without labels.
 * The files stay in the folder, so that a user can do the same again.
 *
 * @param folder where everything lies
 */
public record Distillation(Path folder, QuickstartFiles files) {
    /** Two epochs of the texts that are not evaluated on. */
    private static final int STEPS = 74;

    private static final String MODEL = "all-minilm-l6-v2.fp8-distilled.onnx";
    private static final String STUDENT = "student.onnx";
    private static final String CONFIG = "distil.yaml";
    private static final String TRAIN = "train.jsonl";
    private static final String HELD_OUT = "held-out.jsonl";
    private static final String RUN = "run";

    /** What is written in the folder. */
    public static final List<String> ENTRIES = List.of(MODEL, STUDENT, CONFIG, TRAIN, HELD_OUT, RUN);

    /** The model that the run ends in. */
    public Path model() {
        return folder.resolve(MODEL);
    }

    /** What learns: the quantised model's numbers as F32. */
    public Path student() {
        return folder.resolve(STUDENT);
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
     * Writes the student, its texts and the configuration.
     *
     * @param glosses all texts
     * @param from first text that is evaluated on
     * @param to text after the last
     */
    public void prepare(Converter converter, Conversion conversion, Path glosses, int from, int to) throws IOException {
        try (TrainedModel student = TrainedModel.dequantized(converter, conversion)) {
            ModelFile.save(Model.of(student.plain(DType.F32)), student());
        }
        List<String> lines = Files.readAllLines(glosses);
        List<String> train = new ArrayList<>(lines.subList(0, from));
        train.addAll(lines.subList(to, lines.size()));
        Files.write(folder.resolve(TRAIN), train);
        Files.write(heldOut(), lines.subList(from, to));
        Files.writeString(config(), """
            # the FP8 model (student) learns to answer as the original (teacher), computing as it is deployed
            data: {train: train.jsonl, eval: held-out.jsonl, tokenizer: %s}
            loss: {type: mse, output: last_hidden_state, distillation: {teacher: %s}}
            batch_size: 16
            steps: %d
            optimizer: {type: adamw, lr: 5.0e-5, weight_decay: 0}
            schedule: {type: linear, warmup: 4}
            freeze: ['embeddings\\.']
            precision: {mode: fp8, recipe: deployed, base: fp32}
            """.formatted(
                        files.tokenizer().toAbsolutePath(), files.model().toAbsolutePath(), STEPS));
    }
}
