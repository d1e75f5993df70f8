package dev.octet.cli;

import com.fasterxml.jackson.annotation.JsonUnwrapped;
import dev.octet.converter.inspect.Inspection;
import dev.octet.pipeline.Inspect;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.device.cuda.GpuReport;
import dev.octet.trainer.device.cuda.Gpus;
import java.io.IOException;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.commons.cli.Option;
import org.jspecify.annotations.Nullable;

/** {@code octet inspect MODEL}: what is in a file; {@code octet inspect --device}: what of CUDA there is. */
final class InspectCommand implements Command {
    private static final int SHOWN_VALUE_LENGTH = 100;
    private static final Option PARAMETERS =
            Flags.flag("parameters", "list the parameters that training may change (--json always does)");
    private static final Option DEVICE =
            Flags.flag("device", "instead of a model: the GPUs and what was found of CUDA, for train --device cuda");

    /** What {@code --json} prints: the facts, and what training may change. */
    record Answer(
            @JsonUnwrapped Inspection facts,
            @Nullable String architecture,
            @Nullable String withoutGraph,
            List<Inspect.ParameterFact> parameters,
            List<Ties.Tie> ties) {
        static Answer of(Inspect.Result r) {
            return new Answer(r.facts(), r.architecture(), r.withoutGraph(), r.parameters(), r.ties());
        }
    }

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
        return List.of(PARAMETERS, DEVICE);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet inspect model.onnx",
                "octet inspect --parameters model.onnx",
                "octet inspect --json model.safetensors",
                "octet inspect --device");
    }

    @Override
    public void checkOperands(Arguments arguments) {
        if (!arguments.has(DEVICE)) {
            arguments.requireOperands();
        } else if (arguments.operands() > 0) {
            throw arguments.usage("--device takes no MODEL", "leave one of them out");
        }
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        if (arguments.has(DEVICE)) {
            GpuReport report = Gpus.report();
            screen.out().print(arguments.has(Flags.JSON) ? GpuPage.json(report) : GpuPage.text(report));
            return ExitCode.OK;
        }
        print(Answer.of(Inspect.run(arguments.operand(0))), arguments, screen);
        return ExitCode.OK;
    }

    private static void print(Answer answer, Arguments arguments, Screen screen) {
        screen.answer(arguments, answer, () -> page(answer) + parameters(answer, arguments.has(PARAMETERS)));
    }

    /** Their number, and the list when it is asked for. */
    private static String parameters(Answer answer, boolean listed) {
        List<Inspect.ParameterFact> all = answer.parameters();
        if (all.isEmpty()) {
            return "";
        }
        long elements = all.stream().mapToLong(Inspect.ParameterFact::elements).sum();
        StringBuilder text = new StringBuilder("\nparameters\n  ")
                .append(all.size())
                .append(" that training may change, ")
                .append(elements)
                .append(" elements\n");
        if (listed) {
            Table table = new Table().row("name", "use", "dtype", "shape");
            all.forEach(p -> table.row(p.name(), p.use(), p.dtype(), p.shape()));
            text.append(table.text(2));
            answer.ties()
                    .forEach(t -> text.append("  ")
                            .append(t.copy())
                            .append(" has the elements of ")
                            .append(t.original())
                            .append(t.transposed() ? ", transposed" : "")
                            .append(t.embedding() ? ": trained as one, unless ties: none says otherwise\n" : "\n"));
        }
        return text.toString();
    }

    private static String page(Answer answer) {
        Inspection facts = answer.facts();
        StringBuilder page = new StringBuilder();
        Table head = new Table()
                .row("file", facts.path())
                .row("format", facts.format())
                .row("size", Table.bytes(facts.fileBytes()));
        if (answer.architecture() != null) {
            head.row("architecture", answer.architecture());
        }
        if (answer.withoutGraph() != null) {
            head.row("no graph", answer.withoutGraph());
        }
        Inspection.GraphFacts graph = facts.graph();
        if (graph != null) {
            appendGraph(head, graph);
        }
        appendLayers(head, facts.layers());
        page.append(head.text(0));
        appendTensors(page, facts.tensors());
        if (graph != null) {
            appendOperators(page, graph.operators());
        }
        appendQuantization(page, facts.quantization());
        appendSettings(page, "metadata", facts.metadata());
        return page.toString();
    }

    private static void appendLayers(Table head, Inspection.Layers layers) {
        String quantized = layers.quantizedLinear() == 0
                ? ""
                : " (" + layers.quantizedLinear() + " quantised: Q/DQ around MatMul or Gemm)";
        head.row(
                "layers",
                String.format(
                        Locale.ROOT,
                        "%d Linear%s, %d LayerNorm%s, %d RMSNorm%s (by %s)",
                        layers.linear(),
                        quantized,
                        layers.layerNorm(),
                        handingOn(layers.layerNormFp8Output()),
                        layers.rmsNorm(),
                        handingOn(layers.rmsNormFp8Output()),
                        layers.source()));
        if (layers.linearInBodies() > 0) {
            head.row("", layers.linearInBodies() + " Linear in bodies of If, Loop or Scan, which stay as they are");
        }
    }

    /** No number of a norm is FP8, only what is made of its output. */
    private static String handingOn(int norms) {
        return norms == 0 ? "" : " (" + norms + " handing on FP8)";
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
