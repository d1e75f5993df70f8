package dev.octet.cli;

import dev.octet.converter.Converter;
import dev.octet.converter.inspect.Inspection;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphModel;
import java.io.IOException;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.apache.commons.cli.Option;

/** {@code octet inspect MODEL}: what is in a file. */
final class InspectCommand implements Command {
    private static final int SHOWN_VALUE_LENGTH = 100;

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
        try (ModelFile file = ModelFile.open(arguments.operand(0))) {
            Inspection facts = Inspection.of(file, canonical(file));
            screen.out().print(arguments.has(Flags.JSON) ? Json.page(facts) + "\n" : page(facts));
        }
        return ExitCode.OK;
    }

    /** The graph as the converter sees it; a model that cannot be imported is still worth looking at. */
    private static Optional<GraphModel> canonical(ModelFile file) {
        if (file.model().graph().isEmpty()) {
            return Optional.empty();
        }
        try (Converter converter = Converter.of(file.model())) {
            return Optional.of(converter.canonical());
        } catch (UnsupportedModelException e) {
            System.getLogger(InspectCommand.class.getName())
                    .log(System.Logger.Level.DEBUG, "layers are counted by name", e);
            return Optional.empty();
        }
    }

    private static String page(Inspection facts) {
        StringBuilder page = new StringBuilder();
        Table head = new Table()
                .row("file", facts.path())
                .row("format", facts.format())
                .row("size", Table.bytes(facts.fileBytes()));
        Inspection.GraphFacts graph = facts.graph();
        if (graph != null) {
            appendGraph(head, graph);
        }
        Inspection.Layers layers = facts.layers();
        head.row(
                "layers",
                String.format(
                        Locale.ROOT,
                        "%d Linear, %d LayerNorm, %d RMSNorm (by %s)",
                        layers.linear(),
                        layers.layerNorm(),
                        layers.rmsNorm(),
                        layers.source()));
        page.append(head.text(0));
        appendTensors(page, facts.tensors());
        if (graph != null) {
            appendOperators(page, graph.operators());
        }
        appendQuantization(page, facts.quantization());
        appendSettings(page, "metadata", facts.metadata());
        return page.toString();
    }

    private static void appendGraph(Table head, Inspection.GraphFacts graph) {
        head.row("producer", graph.producer().isEmpty() ? "not named" : graph.producer());
        head.row("IR version", graph.irVersion());
        head.row(
                "opset",
                graph.opsets().entrySet().stream()
                        .map(e -> e.getKey() + " " + e.getValue())
                        .reduce((a, b) -> a + ", " + b)
                        .orElse("none"));
        head.row("nodes", graph.nodes() + (graph.functions() > 0 ? ", functions " + graph.functions() : ""));
        graph.inputs().forEach(v -> head.row("input", v.name() + "  " + v.type()));
        graph.outputs().forEach(v -> head.row("output", v.name() + "  " + v.type()));
    }

    private static void appendTensors(StringBuilder page, Inspection.Tensors tensors) {
        Table table = new Table().row("dtype", "tensors", "elements", "bytes");
        for (Inspection.DTypeShare share : tensors.byDtype()) {
            table.row(share.dtype(), share.count(), share.elements(), Table.bytes(share.bytes()));
        }
        table.row("all", tensors.count(), tensors.elements(), Table.bytes(tensors.bytes()));
        page.append("\ntensors\n").append(table.text(2));
    }

    private static void appendOperators(StringBuilder page, Map<String, Integer> operators) {
        Table table = new Table().row("operator", "nodes");
        operators.forEach((name, count) -> table.row(name, count));
        page.append("\noperators\n").append(table.text(2));
    }

    private static void appendQuantization(StringBuilder page, Inspection.Quantization q) {
        boolean none = q.quantizeNodes() + q.dequantizeNodes() + q.float8Tensors() + q.scaleTensors() == 0
                && q.settings().isEmpty();
        if (none) {
            page.append("\nquantisation\n  none found\n");
            return;
        }
        page.append("\nquantisation\n")
                .append(new Table()
                        .row("QuantizeLinear nodes", q.quantizeNodes())
                        .row("DequantizeLinear nodes", q.dequantizeNodes())
                        .row("8-bit float tensors", q.float8Tensors())
                        .row("scale tensors", q.scaleTensors())
                        .text(2));
        appendSettings(page, "quantisation settings", q.settings());
    }

    private static void appendSettings(StringBuilder page, String title, Map<String, String> settings) {
        if (settings.isEmpty()) {
            return;
        }
        Table table = new Table();
        settings.forEach((key, value) -> table.row(key, shortened(value)));
        page.append('\n').append(title).append('\n').append(table.text(2));
    }

    private static String shortened(String value) {
        return value.length() <= SHOWN_VALUE_LENGTH ? value : value.substring(0, SHOWN_VALUE_LENGTH) + "...";
    }
}
