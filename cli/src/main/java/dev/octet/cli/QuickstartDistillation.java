package dev.octet.cli;

import dev.octet.converter.Conversion;
import dev.octet.converter.Converter;
import dev.octet.converter.TrainedModel;
import dev.octet.formats.ModelFile;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * The quickstart's second half: the quantised model learns from the original to make up for its own rounding, on texts without labels. What
 * it does is what a user would type, with files that stay in the folder.
 */
final class QuickstartDistillation {
    /** Two epochs of the texts that are not evaluated on. */
    private static final int STEPS = 74;

    private static final String MODEL = "all-minilm-l6-v2.fp8-distilled.onnx";
    private static final String STUDENT = "student.onnx";
    private static final String CONFIG = "distil.yaml";
    private static final String TRAIN = "train.jsonl";
    private static final String HELD_OUT = "held-out.jsonl";
    private static final String RUN = "run";

    /** What it writes in its folder. */
    static final List<String> ENTRIES = List.of(MODEL, STUDENT, CONFIG, TRAIN, HELD_OUT, RUN);

    private final Path folder;
    private final QuickstartFiles files;

    QuickstartDistillation(Path folder, QuickstartFiles files) {
        this.folder = folder;
        this.files = files;
    }

    /** The model it ends in. */
    Path model() {
        return folder.resolve(MODEL);
    }

    private Path student() {
        return folder.resolve(STUDENT);
    }

    private Path config() {
        return folder.resolve(CONFIG);
    }

    /** Texts that are evaluated on. */
    Path heldOut() {
        return folder.resolve(HELD_OUT);
    }

    /** The run's folder. */
    Path run() {
        return folder.resolve(RUN);
    }

    /** What was typed. */
    List<List<String>> commands() {
        return List.of(
                List.of("train", student().toString(), "--config", config().toString(), "-o", run().toString()),
                List.of("export", run().toString(), "-o", model().toString(), "--target", "onnxruntime"));
    }

    /**
     * Writes the student, its texts and the configuration.
     *
     * @param glosses all texts
     * @param from first text that is evaluated on
     * @param to text after the last
     */
    void prepare(Converter converter, Conversion conversion, Path glosses, int from, int to) throws IOException {
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

    /**
     * Trains and exports; what the two verbs say goes to standard error, which the quickstart's own answer is not on.
     *
     * @return the exit code of the first that failed
     */
    ExitCode run(Arguments arguments, Screen screen) throws IOException {
        boolean quiet = arguments.has(Flags.QUIET);
        PrintStream told =
                quiet ? new PrintStream(OutputStream.nullOutputStream(), false, StandardCharsets.UTF_8) : screen.err();
        Screen aside = new Screen(told, screen.err(), screen.terminal(), screen.debug());
        for (List<String> command : commands()) {
            List<String> words = new ArrayList<>(command);
            words.addAll(List.of("--threads", Integer.toString(arguments.threads())));
            if (quiet) {
                words.add("--quiet");
            }
            ExitCode code = Octet.run(words, aside);
            if (code != ExitCode.OK) {
                return code;
            }
        }
        return ExitCode.OK;
    }
}
