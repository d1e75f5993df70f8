package dev.octet.cli;

import dev.octet.converter.sensitivity.MixGroup;
import dev.octet.converter.sensitivity.OutputLoss;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.Nearest;
import dev.octet.pipeline.AutoMix;
import dev.octet.pipeline.Quantize;
import dev.octet.pipeline.SampleSource;
import dev.octet.pipeline.Sensitivity;
import dev.octet.pipeline.Serving;
import dev.octet.pipeline.Target;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.commons.cli.Option;

/** {@code octet quantize --mix auto}: options of the search for a mix of formats, and what it answers. */
final class MixFlags {
    static final Option MIX = ChoiceOption.of(
            "mix",
            "auto",
            List.of("auto"),
            "find the format of each Linear by its loss on the data, for one of --bits, --size, --gate; see also 'octet"
                    + " sensitivity' (default: one recipe for all)");
    private static final Option BITS = Flags.value(
            "bits",
            "N",
            "with --mix: least loss with at most N bits per element of the Linears' weights, scales included");
    private static final Option SIZE =
            Flags.value("size", "N[kB|MB|GB]", "with --mix: least loss with a model of at most this size");
    private static final Option GATE = Flags.value(
            "gate",
            "NAME=VALUE",
            "with --mix: smallest model that keeps it, predicted and then measured; exit with 1 when it does not: "
                    + String.join(", ", AutoMix.GATES));

    private static final Pattern BYTES = Pattern.compile("(\\d{1,12}(?:\\.\\d{1,6})?)\\s?(B|[kKMG]B?|[KMG]iB)?");
    private static final Map<String, Double> UNITS =
            Map.of("k", 1e3, "K", 1e3, "M", 1e6, "G", 1e9, "Ki", 1024.0, "Mi", 1048576.0, "Gi", 1073741824.0);
    private static final int WIDEST = 64;

    private static final Map<String, Target.Graph> GRAPHS = Flags.byName(Target.GRAPHS, Target::label);

    private MixFlags() {}

    /** What quantize takes in addition. */
    static List<Option> all() {
        return List.of(MIX, BITS, SIZE, GATE, SensitivityCommand.FORMATS);
    }

    /** Refuses what only a mix has a use for. */
    static void refuseWithout(Arguments arguments) {
        arguments.refuse(
                List.of(BITS, SIZE, GATE, SensitivityCommand.FORMATS), "is for --mix auto", "give --mix auto, too");
    }

    /**
     * Runs the search.
     *
     * @param refused options that a mix has no use for
     */
    static ExitCode run(
            Arguments arguments,
            Screen screen,
            List<Option> refused,
            Option recipe,
            Option target,
            PathOption report,
            Optional<Quantize.Rounding> rounding)
            throws IOException {
        arguments.choice(MIX, Map.of("auto", true), true);
        arguments.refuse(
                List.of(recipe),
                "and --mix auto exclude each other: the mix chooses a recipe for each Linear",
                "leave one of them out; --formats names the recipes to choose from");
        arguments.refuse(refused, "is not for --mix auto, which takes all it needs from its data", "leave it out");
        Path data = DataFlags.file(arguments)
                .orElseThrow(() -> arguments.usage(
                        "--mix auto needs data to measure losses on", "give --calibration FILE or --data FILE"));
        AutoMix.Request request = AutoMix.Request.of(
                        arguments.operand(0),
                        arguments.requiredPath(Flags.OUTPUT),
                        samples(arguments, data),
                        goal(arguments),
                        target(arguments, target))
                .withFormats(SensitivityCommand.formats(arguments))
                .keeping(CheckpointFlags.patterns(arguments, CheckpointFlags.KEEP));
        if (rounding.isPresent()) {
            request = request.withRounding(rounding.get());
        }
        Optional<Path> page = arguments.path(report);
        if (page.isPresent()) {
            request = request.withReport(page.get());
        }
        arguments.requireInputs();
        arguments.outputFile(report);
        try (Progress progress = arguments.progress(screen)) {
            AutoMix.Result result = AutoMix.run(request, arguments.job(progress));
            progress.end();
            screen.answer(arguments, result, () -> page(result));
            screen.report(arguments, result.dryRun() ? Optional.empty() : request.report());
            return result.gate() == null || result.gate().passed() ? ExitCode.OK : ExitCode.CHECK_FAILED;
        }
    }

    private static SampleSource samples(Arguments arguments, Path data) {
        SampleSource source = DataFlags.source(arguments, data);
        return arguments.has(DataFlags.SAMPLES) ? source : source.withAtMost(Sensitivity.DEFAULT_SAMPLES);
    }

    private static AutoMix.Goal goal(Arguments arguments) {
        List<String> given = List.of(BITS, SIZE, GATE).stream()
                .filter(arguments::has)
                .map(o -> "--" + o.getLongOpt())
                .toList();
        if (given.size() != 1) {
            throw arguments.usage(
                    given.isEmpty()
                            ? "--mix auto needs a goal"
                            : String.join(" and ", given) + " are goals that can contradict each other",
                    "give one of --bits 6.0, --size 40MB, --gate cosine=0.998");
        }
        Optional<Double> bits = arguments.number(BITS, 1, WIDEST);
        return bits.isPresent()
                ? new AutoMix.Goal.Bits(bits.get())
                : arguments.has(SIZE) ? size(arguments) : gate(arguments);
    }

    private static AutoMix.Goal size(Arguments arguments) {
        String text = arguments.text(SIZE).orElseThrow();
        Matcher matcher = BYTES.matcher(text);
        double bytes = 0;
        if (matcher.matches()) {
            String unit = Optional.ofNullable(matcher.group(2)).orElse("").replaceFirst("B$", "");
            bytes = Double.parseDouble(matcher.group(1)) * UNITS.getOrDefault(unit, 1.0);
        }
        if (!(bytes >= 1)) {
            throw arguments.usage("--size needs a size, got '" + text + "'", "for example 40MB, or 38MiB");
        }
        return new AutoMix.Goal.Size((long) bytes);
    }

    private static AutoMix.Goal gate(Arguments arguments) {
        if (arguments.texts(GATE).size() > 1) {
            throw arguments.usage("--mix auto takes one gate", "give the one that matters most");
        }
        String[] parts = arguments.text(GATE).orElseThrow().split("=", 2);
        if (!AutoMix.GATES.contains(parts[0])) {
            throw arguments.usage("--mix auto has no gate '" + parts[0] + "'", Nearest.advice(parts[0], AutoMix.GATES));
        }
        boolean cosine = parts[0].equals(AutoMix.GATES.getFirst());
        double limit = number(parts.length < 2 ? "" : parts[1]);
        if (!(cosine ? limit > 0 && limit < 1 : limit > 0 && limit < Double.POSITIVE_INFINITY)) {
            throw arguments.usage(
                    "--gate '" + String.join("=", parts) + "' "
                            + (Double.isNaN(limit)
                                    ? "has no number"
                                    : cosine ? "can never be kept, or always" : "can never be kept"),
                    cosine ? "give a cosine below 1, such as cosine=0.998" : "for example perplexity-change=0.01");
        }
        return new AutoMix.Goal.Gate(parts[0], limit);
    }

    private static double number(String text) {
        try {
            return Double.parseDouble(text);
        } catch (NumberFormatException e) {
            return Double.NaN;
        }
    }

    /** A runtime or layout; of a program that loads checkpoints its usual layout. */
    private static Target target(Arguments arguments, Option target) throws IOException {
        Path model = arguments.operand(0);
        Map<String, Target> all = Flags.byName(
                Stream.<Target>concat(Target.GRAPHS.stream(), Target.CHECKPOINTS.stream())
                        .toList(),
                Target::label);
        Optional<String> name = arguments.text(target);
        boolean checkpoint = Files.exists(model) && Checkpoint.isCheckpoint(model);
        Target usual = checkpoint
                ? Objects.requireNonNull(CheckpointFlags.TARGETS.get("compressed-tensors"))
                : Target.GRAPHS.getFirst();
        Optional<Target> served = name.flatMap(n -> Optional.ofNullable(Serving.CONSUMERS.get(n)))
                .flatMap(c -> Optional.ofNullable(
                        CheckpointFlags.TARGETS.get(Serving.layouts(c).getFirst())));
        Target chosen = served.isPresent() ? served.get() : arguments.choice(target, all, usual);
        if (!checkpoint && chosen instanceof Target.Checkpoint) {
            throw arguments.usage(
                    "target '" + name.orElse("") + "' is for checkpoints, not for ONNX models such as " + model,
                    "for ONNX models: " + String.join(", ", GRAPHS.keySet()));
        }
        return chosen;
    }

    private static String page(AutoMix.Result result) {
        StringBuilder page = new StringBuilder();
        Table facts = new Table()
                .row("model", result.model() + "  " + Quantity.bytes(result.originalBytes()))
                .row("data", result.samples() + " samples of " + result.data())
                .row("target", result.target())
                .row("goal", result.goal())
                .row("mix", counts(result) + String.format(Locale.ROOT, "; %.2f bits per weight", result.bits()))
                .row(
                        result.dryRun() ? "would write" : "written",
                        result.output() + "  " + (result.dryRun() ? "about " : "") + Quantity.bytes(result.bytes()));
        if (result.report() != null) {
            facts.row("report", result.report());
        }
        facts.row("time", Quantity.seconds(result.seconds()));
        page.append(facts.text(0)).append('\n');
        Table losses = new Table().heading("loss", "predicted", "measured");
        OutputLoss measured = result.measured();
        row(losses, "KL divergence", result.predicted().kl(), measured == null ? Double.NaN : measured.kl(), "%.3g");
        row(
                losses,
                "1 - cosine",
                result.predicted().cosine(),
                measured == null ? Double.NaN : measured.cosine(),
                "%.3g");
        row(
                losses,
                "perplexity",
                100 * result.predicted().perplexityChange(),
                measured == null ? Double.NaN : 100 * measured.perplexityChange(),
                "%+.3f %%");
        page.append(losses.text(0));
        if (result.gate() != null) {
            page.append(GateFlags.line(result.gate()));
        }
        result.notes()
                .forEach(n -> page.append("note: ").append(Printable.of(n)).append('\n'));
        List<String> kept = result.formats().stream()
                .filter(f -> f.format().equals(MixGroup.KEPT))
                .map(AutoMix.Chosen::weight)
                .toList();
        if (!kept.isEmpty()) {
            page.append('\n').append(TextStyle.heading("kept as they are")).append('\n');
            Table table = new Table();
            kept.stream().limit(SensitivityCommand.LAYERS_SHOWN).forEach(table::row);
            page.append(table.text(2));
            if (kept.size() > SensitivityCommand.LAYERS_SHOWN) {
                page.append("  and ")
                        .append(kept.size() - SensitivityCommand.LAYERS_SHOWN)
                        .append(" more (--json lists all)\n");
            }
        }
        return page.toString();
    }

    private static String counts(AutoMix.Result result) {
        List<String> counts = new ArrayList<>();
        result.counts().forEach((format, count) -> counts.add(count + " " + format));
        return counts.stream().collect(Collectors.joining(", "));
    }

    private static void row(Table table, String name, double predicted, double measured, String format) {
        if (!Double.isNaN(predicted)) {
            table.row(
                    name,
                    String.format(Locale.ROOT, format, predicted),
                    Double.isNaN(measured) ? "" : String.format(Locale.ROOT, format, measured));
        }
    }
}
