package dev.octet.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.RestoredCheckpoint;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.ModelConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.Optional;

/** {@code octet convert model.onnx -o FOLDER --target huggingface}: an ONNX model as the checkpoint it was exported from. */
final class ConvertToHuggingFace {
    static final String TARGET = "huggingface";

    static final PathOption CONFIG = PathOption.read(
            "config",
            "FILE",
            "target huggingface: config.json of the model (default: what the graph tells; the rest is left to"
                    + " transformers' defaults)");

    private ConvertToHuggingFace() {}

    /**
     * What is printed.
     *
     * @param architecture class of transformers
     * @param error largest difference from the ONNX model's outputs, relative to the largest number in them
     * @param notInFile keys of the configuration that the graph does not tell
     * @param absentTensors tensors that such checkpoints may have and this one has not
     */
    record Answer(
            String model,
            String output,
            String architecture,
            int tensors,
            long bytes,
            double error,
            List<String> notInFile,
            List<String> absentTensors) {}

    static ExitCode run(Arguments arguments, Screen screen) throws IOException {
        Path model = arguments.operand(0);
        Path output = arguments.outputFile();
        if (Files.exists(output) && !Files.isDirectory(output)) {
            throw arguments.usage("'" + output + "' is a file", "give the name of a folder");
        }
        if (Files.exists(model) && Checkpoint.isCheckpoint(model)) {
            throw arguments.usage("'" + model + "' is a checkpoint already", "give an .onnx file");
        }
        Optional<ObjectNode> config = config(arguments);
        try (ModelFile file = ModelFile.open(model);
                RestoredCheckpoint restored = RestoredCheckpoint.of(file, config)) {
            if (!arguments.has(Flags.DRY_RUN)) {
                restored.save(output);
            }
            Answer answer = new Answer(
                    model.toString(),
                    output.toString(),
                    restored.modelClass(),
                    restored.tensors().size(),
                    restored.tensors().values().stream()
                            .mapToLong(t -> t.spec().byteSize())
                            .sum(),
                    restored.error(),
                    restored.unseen(),
                    restored.absent());
            screen.answer(arguments, answer, () -> page(arguments, answer));
        }
        return ExitCode.OK;
    }

    private static Optional<ObjectNode> config(Arguments arguments) throws IOException {
        Optional<Path> given = arguments.path(CONFIG);
        if (given.isEmpty()) {
            return Optional.empty();
        }
        Path file = given.get().toAbsolutePath();
        Optional<ObjectNode> config = Files.isDirectory(file)
                ? ModelConfig.read(file)
                : ModelConfig.read(
                        Objects.requireNonNull(file.getParent()),
                        Objects.requireNonNull(file.getFileName()).toString());
        if (config.isEmpty()) {
            throw new NoSuchFileException(given.get().toString());
        }
        return config;
    }

    private static String page(Arguments arguments, Answer answer) {
        Table table = new Table()
                .row("model", answer.model())
                .row(arguments.has(Flags.DRY_RUN) ? "would write" : "written", answer.output())
                .row("architecture", answer.architecture())
                .row("tensors", answer.tensors() + ", " + answer.bytes() + " bytes")
                .row("proof", String.format("outputs differ by %.1e of the largest number", answer.error()));
        if (!answer.notInFile().isEmpty()) {
            table.row("not in the file", String.join(", ", answer.notInFile()) + " (transformers' defaults)");
        }
        if (!answer.absentTensors().isEmpty()) {
            table.row("without", String.join(", ", answer.absentTensors()) + " (transformers makes them anew)");
        }
        return table.text(0);
    }
}
