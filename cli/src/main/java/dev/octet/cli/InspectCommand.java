package dev.octet.cli;

import java.io.IOException;
import java.util.List;
import org.apache.commons.cli.Option;

/** {@code octet inspect MODEL}: what is in a file. */
final class InspectCommand implements Command {
    @Override
    public String name() {
        return "inspect";
    }

    @Override
    public String summary() {
        return "Show what a model file holds: format, nodes, tensors, sizes, layers, quantisation.";
    }

    @Override
    public List<String> operands() {
        return List.of("MODEL");
    }

    @Override
    public List<Option> options() {
        return List.of();
    }

    @Override
    public List<String> examples() {
        return List.of("octet inspect model.onnx", "octet inspect --json model.safetensors");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        return ExitCode.OK;
    }
}
