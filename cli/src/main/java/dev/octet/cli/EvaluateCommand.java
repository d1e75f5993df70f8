package dev.octet.cli;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.evaluate.EmbeddingComparison;
import dev.octet.converter.evaluate.Evaluation;
import dev.octet.converter.evaluate.EvaluationOptions;
import dev.octet.converter.evaluate.LayerComparison;
import dev.octet.converter.evaluate.ModelComparison;
import dev.octet.converter.evaluate.OutputComparison;
import dev.octet.converter.evaluate.PerplexityComparison;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.formats.graph.GraphModel;
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
            "exit with 1 when a measure is below VALUE, or above it for " + Measures.PERPLEXITY_CHANGE + "; "
                    + String.join(", ", Measures.NAMES) + " (default: none)");
    private static final Option PERPLEXITY = Flags.flag(
            "perplexity",
            "compare perplexities, too, of causal language models (default: for Hugging Face folders of such models,"
                    + " and where a gate asks for it)");
    private static final Option NO_LAYERS = Flags.flag("no-layers", "leave out the comparison layer by layer");

    /** What {@code --json} prints. */
    record Answer(
            String reference,
            String candidate,
            String data,
            ModelComparison comparison,
            List<LayerComparison> layers,
            List<Gates.Result> gates,
            List<String> notes,
            double seconds) {}

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
        List<Option> options = new ArrayList<>(List.of(DATA));
        options.addAll(DataFlags.all());
        options.addAll(List.of(GATE, PERPLEXITY, NO_LAYERS, Flags.THREADS));
        return options;
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet evaluate model.onnx fp8.onnx --data texts.jsonl --tokenizer tokenizer.json",
                "octet evaluate model.onnx fp8.onnx --data inputs.npz --gate cosine=0.997 --gate spearman=0.995",
                "octet evaluate Llama-3.1-8B Llama-3.1-8B-FP8 --data heldout.jsonl --gate perplexity-change=0.005");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        long start = System.nanoTime();
        Path reference = arguments.operand(0);
        Path candidate = arguments.operand(1);
        Path data = arguments
                .path(DATA)
                .orElseThrow(() -> arguments.usage("missing --data FILE", "give samples as .npz or .jsonl"));
        Gates gates = Gates.of(arguments, GATE, Measures.NAMES, "cosine=0.997");
        try (ModelSource first = ModelSource.open(reference, ModelSource.Activations.AS_CONSUMERS);
                ModelSource second = ModelSource.open(candidate, ModelSource.Activations.AS_CONSUMERS);
                Converter converter = first.converter();
                Dataset samples = DataFlags.open(arguments, data, reference, InputSpec.of(converter.source()));
                Progress progress = arguments.progress(screen)) {
            EvaluationOptions options = EvaluationOptions.defaults()
                    .withThreads(arguments.threads())
                    .withPerplexity(arguments.has(PERPLEXITY)
                            || gates.limits().containsKey(Measures.PERPLEXITY_CHANGE)
                            || (isCausal(first) && isCausal(second)));
            ModelComparison comparison = compare(
                    first,
                    second,
                    samples,
                    options.withProgress((done, total) -> progress.update("evaluating", done, total, "samples")));
            List<LayerComparison> layers = arguments.has(NO_LAYERS)
                    ? List.of()
                    : layers(
                            converter,
                            first,
                            second,
                            samples,
                            options.withProgress(
                                    (done, total) -> progress.update("comparing layers", done, total, "samples")));
            progress.end();
            List<Gates.Result> results = gates.check(new Measures(comparison)::value);
            Answer answer = new Answer(
                    reference.toString(),
                    candidate.toString(),
                    samples.name(),
                    comparison,
                    layers,
                    results,
                    notes(first, second),
                    (System.nanoTime() - start) / 1e9);
            screen.answer(arguments, answer, () -> page(answer));
            return Gates.exitCode(results);
        }
    }

    /** What consumers of quantised checkpoints would quantise and these graphs do not. */
    private static List<String> notes(ModelSource... sources) {
        List<String> notes = new ArrayList<>();
        for (ModelSource source : sources) {
            source.huggingFace()
                    .ifPresent(h -> h.notes().forEach(n -> notes.add(h.folder().getFileName() + ": " + n)));
        }
        return notes;
    }

    private static boolean isCausal(ModelSource source) {
        return source.huggingFace()
                .map(ModelSource.HuggingFace::modelClass)
                .filter(c -> c.endsWith("ForCausalLM") || c.endsWith("LMHeadModel"))
                .isPresent();
    }

    private static ModelComparison compare(
            ModelSource reference, ModelSource candidate, Dataset samples, EvaluationOptions options)
            throws IOException {
        try (OnnxRuntimeSession a = reference.load(options.threads());
                OnnxRuntimeSession b = candidate.load(options.threads())) {
            return Evaluation.compare(a, b, samples, options);
        }
    }

    private static List<LayerComparison> layers(
            Converter converter,
            ModelSource reference,
            ModelSource candidate,
            Dataset samples,
            EvaluationOptions options)
            throws IOException {
        Optional<GraphModel> graph = candidate.model().graph();
        if (graph.isEmpty()) {
            return List.of();
        }
        GraphModel runnable = reference.runnable(converter);
        if (candidate.huggingFace().isEmpty()) {
            return LayerErrors.compare(converter, runnable, graph.get(), samples, options);
        }
        try (Converter second = candidate.converter()) {
            return LayerErrors.compare(converter, runnable, candidate.runnable(second), samples, options);
        }
    }

    private static String page(Answer answer) {
        ModelComparison comparison = answer.comparison();
        StringBuilder page = new StringBuilder();
        page.append(new Table()
                .row("reference", answer.reference())
                .row("candidate", answer.candidate())
                .row("data", comparison.samples() + " samples of " + answer.data())
                .row("time", Table.seconds(answer.seconds()))
                .text(0));
        Table outputs = new Table().row("output", "cosine mean", "min", "SQNR", "top-1");
        for (OutputComparison o : comparison.outputs()) {
            outputs.row(
                    o.output(),
                    number(o.cosineMean(), 5),
                    number(o.cosineMin(), 5),
                    number(o.sqnrDb(), 1) + " dB",
                    number(o.top1Agreement(), 4));
        }
        page.append('\n').append(outputs.text(0));
        EmbeddingComparison e = comparison.embedding();
        if (e != null) {
            page.append('\n')
                    .append(new Table()
                            .row("sentence embedding", "cosine mean", "min", "Spearman")
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
                            .row("perplexity", "reference", "candidate", "change", "tokens")
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
        answer.gates().forEach(g -> page.append(g.line()));
        return page.toString();
    }

    private static void appendLayers(StringBuilder page, List<LayerComparison> layers) {
        if (layers.isEmpty()) {
            return;
        }
        Table table = new Table().row("layers, worst first", "SQNR");
        layers.stream()
                .sorted((a, b) -> Double.compare(a.sqnrDb(), b.sqnrDb()))
                .limit(LAYERS_SHOWN)
                .forEach(l -> table.row(l.reference(), number(l.sqnrDb(), 1) + " dB"));
        page.append('\n').append(table.text(0));
        if (layers.size() > LAYERS_SHOWN) {
            page.append("and ").append(layers.size() - LAYERS_SHOWN).append(" better ones (--json lists all)\n");
        }
    }

    private static String number(double x, int digits) {
        return Double.isNaN(x) ? "" : String.format(Locale.ROOT, "%." + digits + "f", x);
    }
}
