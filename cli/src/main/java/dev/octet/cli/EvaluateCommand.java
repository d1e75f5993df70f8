package dev.octet.cli;

import dev.octet.converter.evaluate.EmbeddingComparison;
import dev.octet.converter.evaluate.LayerComparison;
import dev.octet.converter.evaluate.ModelComparison;
import dev.octet.converter.evaluate.OutputComparison;
import dev.octet.converter.evaluate.PerplexityComparison;
import dev.octet.pipeline.Evaluate;
import dev.octet.pipeline.Gates;
import dev.octet.pipeline.Measures;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.apache.commons.cli.Option;

/** {@code octet evaluate REFERENCE CANDIDATE --data D}: both models over the same samples. */
final class EvaluateCommand implements Command {
    private static final int LAYERS_SHOWN = 10;

    private static final PathOption DATA = PathOption.read(
            "data",
            "FILE",
            "samples to evaluate on: .npz (arrays named as the model's inputs) or .jsonl ({\"text\": ...}, with"
                    + " --tokenizer); not the ones calibrated on");
    private static final Option GATE = Flags.repeatable(
            "gate",
            "NAME=VALUE",
            "exit with 1 when a measure is below VALUE, or above it for " + Measures.PERPLEXITY_CHANGE
                    + "; of the worst" + " output, or of the sentence embeddings, as the name says: "
                    + String.join(", ", Measures.NAMES) + " (default: none)");
    private static final Option PERPLEXITY = Flags.flag(
            "perplexity",
            "compare perplexities, too, of causal language models (default: for Hugging Face folders of such models,"
                    + " and where a gate asks for it)");
    private static final PathOption REPORT =
            PathOption.written("report", "FILE.html", "write the result as a page too (default: none)");
    private static final Option NO_LAYERS = Flags.flag("no-layers", "leave out the comparison layer by layer");

    @Override
    public String name() {
        return "evaluate";
    }

    @Override
    public String summary() {
        return "Compare the outputs of two models over the same samples.";
    }

    @Override
    public List<String> operands() {
        return List.of("REFERENCE", "CANDIDATE");
    }

    @Override
    public List<Option> options() {
        List<Option> options = new ArrayList<>(List.of(DATA, DataFlags.CALIBRATION_FOR_DATA));
        options.addAll(DataFlags.all());
        options.addAll(List.of(GATE, PERPLEXITY, NO_LAYERS, REPORT, Flags.THREADS, Flags.FORCE));
        return options;
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet evaluate model.onnx fp8.onnx --data texts.jsonl --tokenizer tokenizer.json",
                "octet evaluate model.onnx fp8.onnx --data inputs.npz --gate embedding-cosine=0.997 --gate"
                        + " spearman=0.995",
                "octet evaluate Llama-3.1-8B Llama-3.1-8B-FP8 --data heldout.jsonl --gate perplexity-change=0.005");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        Gates gates = GateFlags.of(arguments, GATE, Measures.NAMES, "cosine=0.997");
        Evaluate.Request request = Evaluate.Request.of(
                        arguments.operand(0), arguments.operand(1), DataFlags.source(arguments, data(arguments)))
                .withGates(gates);
        if (arguments.has(PERPLEXITY)) {
            request = request.with(Evaluate.Part.PERPLEXITY);
        }
        if (arguments.has(NO_LAYERS)) {
            request = request.without(Evaluate.Part.LAYERS);
        }
        arguments.requireInputs();
        Optional<Path> report = arguments.outputFile(REPORT);
        if (report.isPresent()) {
            request = request.withReport(report.get());
        }
        try (Progress progress = arguments.progress(screen)) {
            Evaluate.Result result = Evaluate.run(request, arguments.job(progress));
            progress.end();
            screen.answer(arguments, result, () -> page(result));
            screen.report(arguments, report);
            return GateFlags.exitCode(result.gates());
        }
    }

    private static Path data(Arguments arguments) {
        return DataFlags.file(arguments)
                .orElseThrow(() -> arguments.usage("missing --data FILE", "give samples as .npz or .jsonl"));
    }

    private static String page(Evaluate.Result answer) {
        ModelComparison comparison = answer.comparison();
        StringBuilder page = new StringBuilder();
        page.append(new Table()
                .row("reference", answer.reference())
                .row("candidate", answer.candidate())
                .row("data", comparison.samples() + " samples of " + answer.data())
                .row("time", Quantity.seconds(answer.seconds()))
                .text(0));
        Table outputs = new Table().heading("output", "cosine mean", "min", "SQNR", "top-1");
        for (OutputComparison o : comparison.outputs()) {
            outputs.row(
                    o.output(),
                    number(o.cosineMean(), 5),
                    number(o.cosineMin(), 5),
                    decibels(o.sqnrDb()),
                    number(o.top1Agreement(), 4));
        }
        page.append('\n').append(outputs.text(0));
        EmbeddingComparison e = comparison.embedding();
        if (e != null) {
            page.append('\n')
                    .append(new Table()
                            .heading("sentence embedding", "cosine mean", "min", "Spearman")
                            .row(
                                    e.output(),
                                    number(e.cosineMean(), 5),
                                    number(e.cosineMin(), 5),
                                    number(e.spearman(), 5))
                            .text(0));
        }
        PerplexityComparison p = comparison.perplexity();
        if (p != null) {
            page.append('\n')
                    .append(new Table()
                            .heading("perplexity", "reference", "candidate", "change", "tokens")
                            .row(
                                    "",
                                    number(p.reference().perplexity(), 4),
                                    number(p.candidate().perplexity(), 4),
                                    String.format(Locale.ROOT, "%+.3f %%", 100 * p.change()),
                                    p.reference().tokens())
                            .text(0));
        }
        appendLayers(page, answer.layers());
        answer.notes()
                .forEach(n -> page.append("note: ").append(Printable.of(n)).append('\n'));
        if (!answer.gates().isEmpty()) {
            page.append('\n');
        }
        answer.gates().forEach(g -> page.append(GateFlags.line(g)));
        return page.toString();
    }

    private static void appendLayers(StringBuilder page, List<LayerComparison> layers) {
        if (layers.isEmpty()) {
            return;
        }
        if (layers.stream().allMatch(l -> l.sqnrDb() == Double.POSITIVE_INFINITY)) {
            page.append("\nThe outputs of all ").append(layers.size()).append(" layers are the same.\n");
            return;
        }
        Table table = new Table().heading("layers, worst first", "SQNR");
        layers.stream()
                .sorted((a, b) -> Double.compare(a.sqnrDb(), b.sqnrDb()))
                .limit(LAYERS_SHOWN)
                .forEach(l -> table.row(l.reference(), decibels(l.sqnrDb())));
        page.append('\n').append(table.text(0));
        if (layers.size() > LAYERS_SHOWN) {
            page.append("and ").append(layers.size() - LAYERS_SHOWN).append(" more (--json lists all)\n");
        }
    }

    /** The ratio to no noise at all is infinite. */
    private static String decibels(double x) {
        return x == Double.POSITIVE_INFINITY ? "exact" : number(x, 1) + " dB";
    }

    private static String number(double x, int digits) {
        return Double.isNaN(x) ? "" : String.format(Locale.ROOT, "%." + digits + "f", x);
    }
}
