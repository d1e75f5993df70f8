package dev.octet.cli;

import dev.octet.converter.compare.Closeness;
import dev.octet.converter.compare.CompareOptions;
import dev.octet.converter.compare.DiffReport;
import dev.octet.converter.compare.ModelDiff;
import dev.octet.converter.compare.TensorComparison;
import dev.octet.converter.compare.TensorDiff;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.pipeline.Gates;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.regex.Pattern;
import org.apache.commons.cli.Option;

/** {@code octet diff A B}: two models tensor by tensor, whatever their schemes. */
final class DiffCommand implements Command {
    static final int SHOWN = 20;
    private static final int NAMES_SHOWN = 10;

    private static final Option TOP =
            Flags.value("top", "N", "tensors in the table, worst first; 0 for all (default: " + SHOWN + ")");
    private static final Option ONLY =
            Flags.value("only", "REGEX", "compare weights whose name has a part that matches (default: all)");
    private static final Option GATE = Flags.repeatable(
            "gate",
            "NAME=VALUE",
            "exit with 1 when a measure of the worst tensor is below VALUE; cosine, sqnr, or matched, the share of A's"
                    + " weights that were compared (default: none)");
    private static final PathOption REPORT =
            PathOption.written("report", "FILE.html", "also write the comparison as one self-contained page");

    static final List<String> GATES = List.of("cosine", "matched", "sqnr");

    /** What {@code --json} prints. */
    record Answer(ModelDiff diff, boolean identical, boolean sameValues, List<Gates.Result> gates, double seconds) {}

    @Override
    public String name() {
        return "diff";
    }

    @Override
    public String summary() {
        return "Compare two models tensor by tensor, whatever their formats, layouts, names and sharding; or two"
                + " adapters.";
    }

    @Override
    public List<String> operands() {
        return List.of("A", "B");
    }

    @Override
    public List<Option> options() {
        return List.of(TOP, ONLY, GATE, REPORT, Flags.FORCE, Flags.THREADS);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet diff Llama-3.1-8B Llama-3.1-8B-FP8 --report diff.html",
                "octet diff runs/lora/adapter runs/other/adapter",
                "octet diff original.safetensors quantised.safetensors --only 'layers\\.0\\.' --gate sqnr=30");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        if (PeftAdapter.isAdapter(arguments.operand(0)) && PeftAdapter.isAdapter(arguments.operand(1))) {
            return AdapterDiffPage.run(arguments, screen, new AdapterDiffPage.Options(TOP, ONLY, GATE, REPORT));
        }
        long start = System.nanoTime();
        int top = arguments.integer(TOP, SHOWN, 0, Integer.MAX_VALUE);
        Gates gates = GateFlags.of(arguments, GATE, GATES, "sqnr=30");
        Optional<Path> report = arguments.outputFile(REPORT);
        CompareOptions options = CompareOptions.defaults().withThreads(arguments.threads());
        for (Pattern only : CheckpointFlags.patterns(arguments, ONLY)) {
            options = options.withOnly(only);
        }
        ModelDiff diff;
        try (Progress progress = arguments.progress(screen)) {
            diff = TensorComparison.compare(
                    arguments.operand(0),
                    arguments.operand(1),
                    options.withProgress((done, total) -> progress.progress("comparing", done, total, "elements")));
        }
        if (report.isPresent()) {
            DiffReport.write(diff, report.get());
        }
        List<Gates.Result> results = gates.check(name -> measure(name, diff));
        double seconds = (System.nanoTime() - start) / 1e9;
        screen.answer(
                arguments,
                new Answer(diff, diff.identical(), diff.sameValues(), results, seconds),
                () -> page(diff, top, results, seconds));
        return GateFlags.exitCode(results);
    }

    /** A tensor that could not be compared passes no gate on the worst tensor. */
    private static Gates.Measure measure(String name, ModelDiff diff) {
        return switch (name) {
            case "cosine" -> ofWorst(diff, diff.summary().cosineMin());
            case "sqnr" -> ofWorst(diff, diff.summary().sqnrDbMin());
            case "matched" -> new Gates.Measure(diff.summary().matched(), "");
            default -> throw new IllegalArgumentException("no measure " + name);
        };
    }

    private static Gates.Measure ofWorst(ModelDiff diff, double value) {
        int left = diff.uncomparable().size();
        return left == 0
                ? new Gates.Measure(value, "worst tensor")
                : new Gates.Measure(Double.NaN, left + (left == 1 ? " tensor" : " tensors") + " cannot be compared");
    }

    private static String page(ModelDiff diff, int top, List<Gates.Result> gates, double seconds) {
        StringBuilder page = new StringBuilder();
        ModelDiff.Summary summary = diff.summary();
        page.append(new Table()
                .row("A", diff.a(), diff.formatA())
                .row("B", diff.b(), diff.formatB())
                .text(0));
        Table facts = new Table()
                .row("tensors", counts(diff))
                .row("elements", summary.elements() + ", " + summary.differing() + " differ")
                .row("all together", "SQNR " + decibels(summary.sqnrDb()) + ", cosine " + number(summary.cosine(), 7))
                .row(
                        "worst tensor",
                        "SQNR " + decibels(summary.sqnrDbMin()) + ", cosine " + number(summary.cosineMin(), 7))
                .row("time", Quantity.seconds(seconds));
        page.append('\n').append(facts.text(0));
        appendTensors(page, diff, top);
        appendRounding(page, diff, top);
        appendNames(
                page,
                "cannot be compared",
                diff.uncomparable().stream().map(DiffCommand::uncomparable).toList());
        appendNames(page, "only in A", diff.onlyA());
        appendNames(page, "only in B", diff.onlyB());
        diff.notes().forEach(n -> page.append("note: ").append(Printable.of(n)).append('\n'));
        appendVerdict(page, diff);
        gates.forEach(g -> page.append(GateFlags.line(g)));
        return page.toString();
    }

    private static String counts(ModelDiff diff) {
        StringBuilder text = new StringBuilder().append(diff.summary().pairs());
        diff.summary().byCloseness().forEach((closeness, n) -> {
            if (n > 0) {
                text.append(", ").append(n).append(' ').append(closeness.words());
            }
        });
        return text.toString();
    }

    private static void appendTensors(StringBuilder page, ModelDiff diff, int top) {
        List<TensorDiff> different = diff.tensors().stream()
                .filter(t -> t.closeness() != Closeness.IDENTICAL)
                .toList();
        if (different.isEmpty()) {
            return;
        }
        long limit = top == 0 ? Long.MAX_VALUE : top;
        Table table = new Table()
                .heading(
                        "tensor, worst first",
                        "verdict",
                        "SQNR",
                        "cosine",
                        "max abs",
                        "max ulp",
                        "differ",
                        "amax",
                        "scales",
                        "A",
                        "B");
        different.stream().limit(limit).forEach(t -> table.row(cells(t)));
        page.append('\n').append(table.text(0));
        if (different.size() > limit) {
            page.append("and ").append(different.size() - limit).append(" more (--top 0 shows all)\n");
        }
    }

    private static Object[] cells(TensorDiff t) {
        String name = t.a().equals(t.b()) ? t.a() : t.a() + " = " + t.b();
        return new Object[] {
            name + (t.transposed() ? " (transposed)" : ""),
            t.closeness().words(),
            decibels(t.sqnrDb()),
            number(t.cosine(), 6),
            significant(t.maxAbsError()),
            number(t.maxUlpError(), 3),
            percent((double) t.differing() / Math.max(1, t.elements())),
            t.relativeAmaxDifference() == 0 ? "same" : percent(t.relativeAmaxDifference()),
            scales(t),
            t.schemeA(),
            t.schemeB()
        };
    }

    private static String scales(TensorDiff t) {
        if (t.scales() == null) {
            return "";
        }
        return t.scales().changed() == 0
                ? "same"
                : t.scales().changed() + " of " + t.scales().count() + ", up to x"
                        + significant(t.scales().largestRatio());
    }

    private static void appendRounding(StringBuilder page, ModelDiff diff, int top) {
        List<String> lines = new ArrayList<>();
        for (TensorDiff t : diff.tensors()) {
            if (!t.rounding().evidence().isEmpty()) {
                lines.add(t.a() + ": " + t.rounding().evidence());
            }
            t.notes().forEach(n -> lines.add(t.a() + ": " + n));
        }
        appendList(page, "rounding and other findings", lines, top == 0 ? Integer.MAX_VALUE : top);
    }

    static String uncomparable(ModelDiff.Uncomparable u) {
        String name = u.a().isEmpty() || u.a().equals(u.b()) ? u.b() : u.b().isEmpty() ? u.a() : u.a() + " = " + u.b();
        return name + ": " + u.reason();
    }

    static void appendNames(StringBuilder page, String title, List<String> names) {
        appendList(page, title, names, NAMES_SHOWN);
    }

    private static void appendList(StringBuilder page, String title, List<String> lines, int most) {
        if (lines.isEmpty()) {
            return;
        }
        page.append('\n')
                .append(TextStyle.heading(title))
                .append(" (")
                .append(lines.size())
                .append(")\n");
        lines.stream()
                .limit(most)
                .forEach(l -> page.append("  ").append(Printable.of(l)).append('\n'));
        if (lines.size() > most) {
            page.append("  and ").append(lines.size() - most).append(" more (--json lists all)\n");
        }
    }

    private static void appendVerdict(StringBuilder page, ModelDiff diff) {
        if (diff.identical()) {
            page.append("\nThe models are identical.\n");
        } else if (diff.sameValues()) {
            page.append("\nThe models hold the same numbers in different forms.\n");
        }
    }

    static String decibels(double x) {
        return x == Double.POSITIVE_INFINITY ? "exact" : number(x, 1) + " dB";
    }

    private static String percent(double share) {
        return !Double.isFinite(share)
                ? "" + share
                : share > 0 && share < 0.0001 ? "<0.01 %" : number(100 * share, 2) + " %";
    }

    static String number(double x, int digits) {
        return Double.isFinite(x) ? String.format(Locale.ROOT, "%." + digits + "f", x) : String.valueOf(x);
    }

    private static String significant(double x) {
        return String.format(Locale.ROOT, "%.3g", x);
    }
}
