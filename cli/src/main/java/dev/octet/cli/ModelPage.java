package dev.octet.cli;

import dev.octet.converter.inspect.Dimensions;
import dev.octet.converter.inspect.Fp8TrainingFacts;
import dev.octet.converter.inspect.Inspection;
import dev.octet.converter.inspect.TensorFact;
import dev.octet.formats.torch.Fp8TrainingState;
import dev.octet.pipeline.Inspect;
import dev.octet.trainer.autodiff.Ties;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** What {@code inspect} prints of a model, for people. */
final class ModelPage {
    private static final int SHOWN_VALUE_LENGTH = 100;
    private static final int SHOWN = 10;
    private static final List<String> THOUSANDS = List.of("", " k", " M", " B", " T");

    private final Inspect.Result answer;
    private final Inspection facts;

    ModelPage(Inspect.Result answer) {
        this.answer = answer;
        this.facts = answer.facts();
    }

    /** The page without lists of tensors and parameters. */
    String text() {
        StringBuilder page = new StringBuilder();
        Table head = new Table()
                .row("file", facts.path())
                .row("format", facts.format())
                .row("size", Quantity.bytes(facts.fileBytes()))
                .row("parameters", count(facts.tensors().parameters()));
        if (answer.architecture() != null) {
            head.row("architecture", answer.architecture());
        }
        Dimensions dimensions = facts.dimensions();
        if (dimensions != null) {
            head.row("dimensions", text(dimensions));
        }
        if (answer.withoutGraph() != null) {
            head.row("no graph", answer.withoutGraph());
        }
        Inspection.GraphFacts graph = facts.graph();
        if (graph != null) {
            appendGraph(head, graph);
        }
        appendLayers(head, facts.layers());
        facts.notes().forEach(n -> head.row("note", n));
        page.append(head.text(0));
        appendTypes(page, facts.tensors());
        if (graph != null) {
            appendOperators(page, graph);
        }
        Inspection.Quantization q = facts.quantization();
        appendQuantization(page, q);
        Map<String, String> rest = new LinkedHashMap<>(facts.metadata());
        rest.keySet().removeAll(q.settings().keySet());
        appendSettings(page, "metadata", rest);
        return page.toString();
    }

    /** A count as the field writes it: {@code 252.7 M}, {@code 8.0 B}; below a thousand, all of it. */
    static String count(long n) {
        double value = n;
        int power = 0;
        while (value >= 999.95 && power + 1 < THOUSANDS.size()) {
            value /= 1000;
            power++;
        }
        return power == 0 ? Long.toString(n) : String.format(Locale.ROOT, "%.1f%s", value, THOUSANDS.get(power));
    }

    /** Sizes in a line. */
    static String text(Dimensions d) {
        List<String> parts = new ArrayList<>();
        add(parts, d.layers(), d.layers() != null && d.layers() == 1 ? "layer" : "layers");
        add(parts, "hidden", d.hidden());
        add(parts, "MLP", d.intermediate());
        if (d.heads() != null) {
            boolean grouped = d.keyValueHeads() != null && !d.keyValueHeads().equals(d.heads());
            parts.add(d.heads() + " heads" + (grouped ? " (" + d.keyValueHeads() + " key-value)" : ""));
        }
        add(parts, d.experts(), "experts");
        add(parts, "vocabulary", d.vocabulary());
        add(parts, "context", d.context());
        return String.join(", ", parts);
    }

    private static void add(List<String> parts, @Nullable Long number, String unit) {
        if (number != null) {
            parts.add(number + " " + unit);
        }
    }

    private static void add(List<String> parts, String name, @Nullable Long number) {
        if (number != null) {
            parts.add(name + " " + number);
        }
    }

    /** What Transformer Engine left of FP8 training; nothing where it left nothing. */
    String training(boolean all) {
        Fp8TrainingFacts training = facts.fp8Training();
        if (training == null) {
            return "";
        }
        StringBuilder page = new StringBuilder("\nFP8 training state\n");
        Table head = new Table();
        training.recipes()
                .forEach((recipe, modules) -> head.row(
                        modules == 1 ? "1 module" : modules + " modules", recipe.isEmpty() ? "no recipe" : recipe));
        long most = training.modules().stream()
                .mapToInt(Fp8TrainingState::historyLength)
                .max()
                .orElse(0);
        if (most > 0) {
            head.row("amax history", most == 1 ? "1 step" : most + " steps");
        }
        training.refused().stream().limit(SHOWN).forEach(r -> head.row("not decoded", r));
        if (training.refused().size() > SHOWN) {
            head.row("", "and " + (training.refused().size() - SHOWN) + " more (--json lists all)");
        }
        page.append(head.text(2));
        Table table = new Table().heading("module", "input scale", "weight scale", "gradient scale", "input amax");
        int rows = 0;
        for (Fp8TrainingState state : training.modules()) {
            for (int g = 0; g < state.gemms().size(); g++) {
                if (all || rows < SHOWN) {
                    Fp8TrainingState.Gemm gemm = state.gemms().get(g);
                    table.row(
                            state.module() + (state.gemms().size() == 1 ? "" : ", GEMM " + (g + 1)),
                            gemm.input().scale(),
                            gemm.weight().scale(),
                            gemm.gradOutput().scale(),
                            gemm.input().largestAmax());
                }
                rows++;
            }
        }
        if (rows > 0) {
            page.append('\n').append(table.text(2));
        }
        if (!all && rows > SHOWN) {
            page.append("  and ").append(rows - SHOWN).append(" more (--tensors lists all)\n");
        }
        return page.toString();
    }

    /** The number of parameters that training may change. */
    String trainable() {
        List<Inspect.ParameterFact> all = answer.parameters();
        if (all.isEmpty()) {
            return "";
        }
        long elements = all.stream().mapToLong(Inspect.ParameterFact::elements).sum();
        int quantized = facts.layers().quantizedLinear();
        String note = quantized == 0
                ? ""
                : facts.graph() == null
                        ? ", after dequantising"
                        : "; the " + quantized + " quantised weights stay as they are";
        return "\nparameters\n  " + all.size() + " that training may change, " + count(elements) + " elements" + note
                + "\n";
    }

    /** All parameters that training may change. */
    String parameters() {
        if (answer.parameters().isEmpty()) {
            return "";
        }
        Table table = new Table().heading("name", "use", "dtype", "shape");
        answer.parameters().forEach(p -> table.row(p.name(), p.use(), p.dtype(), p.shape()));
        StringBuilder text = new StringBuilder(table.text(2));
        for (Ties.Tie t : answer.ties()) {
            text.append("  ")
                    .append(Printable.of(t.copy()))
                    .append(" has the elements of ")
                    .append(Printable.of(t.original()))
                    .append(t.transposed() ? ", transposed" : "")
                    .append(t.embedding() ? ": trained as one, unless ties: none says otherwise\n" : "\n");
        }
        return text.toString();
    }

    /** All tensors of the file. */
    String tensors() {
        Table table = new Table().heading("tensor", "dtype", "shape", "bytes", "meaning");
        for (TensorFact t : facts.list()) {
            table.row(t.name(), t.dtype(), t.shape(), Quantity.bytes(t.bytes()), meaning(t));
        }
        return "\nall tensors\n" + table.text(2);
    }

    private static String meaning(TensorFact t) {
        TensorFact.QuantizedWeight q = t.quantized();
        if (q == null) {
            return t.role().equals("other") ? "" : t.role().replace('-', ' ');
        }
        boolean packed = !q.shape().equals(t.shape());
        return q.form() + (packed ? ", weight of " + q.shape() : "");
    }

    private static void appendLayers(Table head, Inspection.Layers layers) {
        String quantized = layers.quantizedLinear() == 0
                ? ""
                : " (" + layers.quantizedLinear() + " quantised"
                        + (layers.source().equals("graph") ? ": Q/DQ around MatMul or Gemm)" : ")");
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
        String nodes = graph.nodes() + (graph.functions() > 0 ? ", functions " + graph.functions() : "");
        if (graph.source() == Inspection.Source.FILE) {
            head.row("producer", graph.producer().isEmpty() ? "not named" : graph.producer());
            head.row("IR version", graph.irVersion());
            head.row(
                    "opset",
                    graph.opsets().entrySet().stream()
                            .map(e -> e.getKey() + " " + e.getValue())
                            .reduce((a, b) -> a + ", " + b)
                            .orElse("none"));
            head.row("nodes", nodes);
        } else {
            head.row("graph", nodes + " nodes, which Octet builds from config.json");
        }
        graph.inputs().forEach(v -> head.row("input", v.name() + "  " + v.type()));
        graph.outputs().forEach(v -> head.row("output", v.name() + "  " + v.type()));
    }

    /** How many tensors of each number type. */
    static void appendTypes(StringBuilder page, Inspection.Tensors tensors) {
        Table table = new Table().heading("dtype", "tensors", "elements", "bytes");
        for (Inspection.DTypeShare share : tensors.byDtype()) {
            table.row(share.dtype(), share.count(), share.elements(), Quantity.bytes(share.bytes()));
        }
        table.row("all", tensors.count(), tensors.elements(), Quantity.bytes(tensors.bytes()));
        page.append("\ntensors\n").append(table.text(2));
    }

    private static void appendOperators(StringBuilder page, Inspection.GraphFacts graph) {
        Table table = new Table().heading("operator", "nodes");
        graph.operators().forEach((name, count) -> table.row(name, count));
        page.append("\noperators\n").append(table.text(2));
    }

    private void appendQuantization(StringBuilder page, Inspection.Quantization q) {
        Table table = new Table();
        if (q.layout() != null) {
            table.row("layout", q.layout() + (q.recipe() == null ? "" : ", recipe " + q.recipe()));
        }
        q.forms().forEach((form, count) -> table.row(count == 1 ? "1 weight" : count + " weights", form));
        row(table, "QuantizeLinear nodes", q.quantizeNodes());
        row(table, "DequantizeLinear nodes", q.dequantizeNodes());
        row(table, "8-bit float tensors", q.float8Tensors());
        row(table, "scale tensors", q.scaleTensors());
        if (table.isEmpty() && q.settings().isEmpty()) {
            page.append("\nquantisation\n  none found\n");
            return;
        }
        if (!table.isEmpty()) {
            page.append("\nquantisation\n").append(table.text(2));
        }
        appendSettings(page, "quantisation settings", q.settings());
    }

    private static void row(Table table, String name, int count) {
        if (count > 0) {
            table.row(name, count);
        }
    }

    /** Keys and what they are, long ones shortened; nothing where there are none. */
    static void appendSettings(StringBuilder page, String title, Map<String, String> settings) {
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
