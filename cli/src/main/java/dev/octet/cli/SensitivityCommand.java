package dev.octet.cli;

import dev.octet.converter.sensitivity.LinearFormat;
import dev.octet.converter.sensitivity.OutputLoss;
import dev.octet.formats.error.Nearest;
import dev.octet.pipeline.SampleSource;
import dev.octet.pipeline.Sensitivity;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.apache.commons.cli.Option;

/** {@code octet sensitivity MODEL --data D}: which Linear loses most in which format. */
final class SensitivityCommand implements Command {
    static final int LAYERS_SHOWN = 10;
    private static final int POINTS_SHOWN = 8;

    private static final PathOption DATA = PathOption.read(
            "data",
            "FILE",
            "samples to measure on: .npz (arrays named as the model's inputs) or .jsonl ({\"text\": ...}, with"
                    + " --tokenizer)");
    static final Option FORMATS = Flags.value(
            "formats",
            "NAME,...",
            "what each Linear is quantised to: " + String.join(", ", LinearFormat.ALL.keySet())
                    + " (default: what the model's usual target writes)");
    private static final Option KEEP =
            Flags.repeatable("keep", "REGEX", "leave out Linears whose name contains a match");
    private static final PathOption REPORT =
            PathOption.written("report", "FILE.html", "write the result as a page too (default: none)");

    @Override
    public String name() {
        return "sensitivity";
    }

    @Override
    public String summary() {
        return "Measure what each Linear loses in each format, alone and among the others.";
    }

    @Override
    public List<String> operands() {
        return List.of("MODEL");
    }

    @Override
    public List<Option> options() {
        List<Option> options = new ArrayList<>(List.of(DATA, DataFlags.CALIBRATION_FOR_DATA));
        options.addAll(DataFlags.all());
        options.addAll(List.of(FORMATS, KEEP, REPORT, Flags.THREADS, Flags.FORCE));
        return options;
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet sensitivity model.onnx --data texts.jsonl --tokenizer tokenizer.json",
                "octet sensitivity Qwen3-0.6B --data texts.jsonl --samples 16 --formats fp8-dynamic,nvfp4 --report"
                        + " page.html");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        Path data = DataFlags.file(arguments)
                .orElseThrow(() -> arguments.usage("missing --data FILE", "give samples as .npz or .jsonl"));
        Sensitivity.Request request = Sensitivity.Request.of(arguments.operand(0), source(arguments, data))
                .withFormats(formats(arguments))
                .keeping(CheckpointFlags.patterns(arguments, KEEP));
        arguments.requireInputs();
        Optional<Path> report = arguments.outputFile(REPORT);
        if (report.isPresent()) {
            request = request.withReport(report.get());
        }
        try (Progress progress = arguments.progress(screen)) {
            Sensitivity.Result result = Sensitivity.run(request, arguments.job(progress));
            progress.end();
            screen.answer(arguments, result, () -> page(result));
            screen.report(arguments, report);
            return ExitCode.OK;
        }
    }

    /** The samples; the first {@link Sensitivity#DEFAULT_SAMPLES} where the command line does not say. */
    private static SampleSource source(Arguments arguments, Path data) {
        SampleSource source = DataFlags.source(arguments, data);
        return arguments.has(DataFlags.SAMPLES) ? source : source.withAtMost(Sensitivity.DEFAULT_SAMPLES);
    }

    /** The formats of a command line; empty where it names none. */
    static List<LinearFormat> formats(Arguments arguments) {
        List<LinearFormat> formats = new ArrayList<>();
        for (String name : arguments.text(FORMATS).map(t -> t.split(",", -1)).orElse(new String[0])) {
            LinearFormat format = LinearFormat.ALL.get(name.strip());
            if (format == null) {
                throw arguments.usage(
                        "unknown format '" + name.strip() + "'",
                        Nearest.advice(name.strip(), LinearFormat.ALL.keySet()));
            }
            if (formats.contains(format)) {
                throw arguments.usage("format " + format.name() + " is named twice", "name each format once");
            }
            formats.add(format);
        }
        return formats;
    }

    private static String page(Sensitivity.Result result) {
        StringBuilder page = new StringBuilder();
        Table facts = new Table()
                .row("model", result.model() + "  " + Quantity.bytes(result.modelBytes()))
                .row("data", result.samples() + " samples of " + result.data())
                .row(
                        "loss",
                        result.output() == null
                                ? "1 - cosine of the outputs"
                                : "KL divergence of " + result.output() + ", in nats per token");
        if (!Double.isNaN(result.perplexity())) {
            facts.row("perplexity", number(result.perplexity()));
        }
        facts.row("time", Quantity.seconds(result.seconds()));
        page.append(facts.text(0));
        for (Sensitivity.Format format : result.formats()) {
            append(page, format, result);
        }
        append(page, result.curve());
        result.notes()
                .forEach(n -> page.append("note: ").append(Printable.of(n)).append('\n'));
        return page.toString();
    }

    private static void append(StringBuilder page, Sensitivity.Format format, Sensitivity.Result result) {
        boolean perplexity = !Double.isNaN(result.perplexity());
        boolean logits = result.output() != null;
        List<String> names = new ArrayList<>(List.of(format.name() + ", worst first", "alone", "others"));
        if (perplexity) {
            names.add("perplexity");
        }
        names.add("bits");
        Table table = new Table().heading(names.toArray(String[]::new));
        for (Sensitivity.Layer layer :
                format.layers().stream().limit(LAYERS_SHOWN).toList()) {
            table.row(cells(layer.weight(), layer.alone(), number(layer.kept().value(logits)), layer.bits(), perplexity)
                    .toArray());
        }
        table.row(cells("all " + format.layers().size() + " Linears", format.all(), "", format.bits(), perplexity)
                .toArray());
        page.append('\n').append(table.text(0));
        if (format.layers().size() > LAYERS_SHOWN) {
            page.append("and ").append(format.layers().size() - LAYERS_SHOWN).append(" more (--json lists all)\n");
        }
        appendExclusion(page, format);
    }

    private static List<Object> cells(String name, OutputLoss loss, String others, double bits, boolean perplexity) {
        boolean logits = !Double.isNaN(loss.kl());
        List<Object> cells = new ArrayList<>(List.of(name, number(loss.value(logits)), others));
        if (perplexity) {
            cells.add(String.format(Locale.ROOT, "%+.3f %%", 100 * loss.perplexityChange()));
        }
        cells.add(String.format(Locale.ROOT, "%.2f", bits));
        return cells;
    }

    private static void appendExclusion(StringBuilder page, Sensitivity.Format format) {
        int count = format.exclusion().weights().size();
        if (count == 0) {
            return;
        }
        page.append(count)
                .append(count == 1 ? " Linear loses" : " Linears lose")
                .append(" half of it alone; to leave ")
                .append(count == 1 ? "it" : "them")
                .append(" out:\n");
        Table words = new Table();
        words.row("octet quantize", keep(format.exclusion().keep()));
        if (!format.exclusion().nodesToExclude().isEmpty()) {
            words.row("nodes_to_exclude", shown(format.exclusion().nodesToExclude()));
        } else {
            words.row("ignore", shown(format.exclusion().ignore()));
            words.row("modules_to_not_convert", shown(format.exclusion().modulesToNotConvert()));
            words.row("exclude_modules", shown(format.exclusion().excludeModules()));
        }
        page.append(words.text(2));
    }

    private static String keep(List<String> patterns) {
        return patterns.stream()
                        .limit(2)
                        .map(p -> "--keep '" + p + "'")
                        .reduce((a, b) -> a + " " + b)
                        .orElse("")
                + more(patterns.size() - 2);
    }

    private static String shown(List<String> names) {
        return String.join(", ", names.subList(0, Math.min(2, names.size()))) + more(names.size() - 2);
    }

    private static String more(int count) {
        return count > 0 ? " and " + count + " more (--json)" : "";
    }

    private static void append(StringBuilder page, List<Sensitivity.Point> curve) {
        Table table = new Table().heading("best mixes", "bits", "predicted loss", "kept");
        int last = curve.size() - 1;
        int shown = Math.min(curve.size(), POINTS_SHOWN);
        for (int i = 0; i < shown; i++) {
            Sensitivity.Point p = curve.get(shown == 1 ? last : i * last / (shown - 1));
            table.row(
                    Quantity.bytes(p.bytes()),
                    String.format(Locale.ROOT, "%.2f", p.bits()),
                    number(p.loss()),
                    p.kept());
        }
        page.append('\n').append(table.text(0));
    }

    private static String number(double x) {
        return Double.isNaN(x) ? "NaN" : x == 0 ? "0" : String.format(Locale.ROOT, "%.3g", x);
    }
}
