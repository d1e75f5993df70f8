package dev.octet.cli;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.model.Model;
import dev.octet.formats.onnx.OnnxWriteOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.commons.cli.Option;

/** {@code octet convert MODEL -o model.onnx --target onnx}: a graph in ONNX's own operators, from a checkpoint or another ONNX file. */
final class ConvertToOnnx {
    private static final Map<String, Integer> OPSETS = Flags.byName(Converter.OPSETS, String::valueOf);
    private static final int USUAL_OPSET = Converter.OPSETS.getFirst();

    static final Option OPSET = Flags.value(
            "opset",
            String.join("|", OPSETS.keySet()),
            "target onnx: version of the operators; attention is one operator in 23, several in 21 (default: "
                    + USUAL_OPSET + ")");

    private ConvertToOnnx() {}

    /**
     * What is printed.
     *
     * @param files that were written: the model, and its data where they are beside it
     * @param constantBytes of all constants
     */
    record Answer(String model, List<String> files, int opset, int nodes, int constants, long constantBytes) {}

    static ExitCode run(Arguments arguments, Screen screen) throws IOException {
        int opset = arguments.choice(OPSET, OPSETS, USUAL_OPSET);
        Path output = output(arguments);
        try (ModelSource source = ModelSource.open(arguments.operand(0));
                Converter converter = source.converter()) {
            GraphModel model = converter.standard(opset);
            if (!arguments.has(Flags.DRY_RUN)) {
                ModelFile.save(Model.of(model), output);
            }
            Answer answer = answer(arguments, model, output);
            screen.answer(arguments, answer, () -> page(arguments, answer));
        }
        return ExitCode.OK;
    }

    private static Path output(Arguments arguments) {
        Path output = arguments.outputFile();
        if (!output.toString().endsWith(".onnx") || Files.isDirectory(output)) {
            throw arguments.usage(
                    "'" + output + "' is no name for an ONNX file",
                    "give a file whose name ends in .onnx; data that do not fit in it are put beside it");
        }
        return output;
    }

    private static Answer answer(Arguments arguments, GraphModel model, Path output) throws IOException {
        long bytes = 0;
        for (Initializer i : model.graph().initializers().values()) {
            bytes += i.tensor().map(t -> t.bytes().byteSize()).orElse(0L);
        }
        List<String> files = new ArrayList<>(List.of(output.toString()));
        // a model that is smaller than its constants has them beside it
        if (!arguments.has(Flags.DRY_RUN) && Files.size(output) < bytes) {
            files.add(OnnxWriteOptions.DEFAULT.dataFile(output).toString());
        }
        return new Answer(
                arguments.operand(0).toString(),
                List.copyOf(files),
                (int) model.opset(),
                model.graph().nodes().size(),
                model.graph().initializers().size(),
                bytes);
    }

    private static String page(Arguments arguments, Answer answer) {
        Table table = new Table()
                .row("model", answer.model())
                .row(arguments.has(Flags.DRY_RUN) ? "would write" : "written", String.join(", ", answer.files()))
                .row("opset", answer.opset())
                .row("nodes", answer.nodes())
                .row("constants", answer.constants() + ", " + answer.constantBytes() + " bytes");
        return table.text(0);
    }
}
