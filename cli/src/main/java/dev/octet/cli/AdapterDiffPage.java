package dev.octet.cli;

import dev.octet.converter.compare.AdapterComparison;
import dev.octet.converter.compare.AdapterDiff;
import dev.octet.pipeline.Gates;
import java.io.IOException;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.regex.Pattern;
import org.apache.commons.cli.Option;

/** {@code octet diff A B} of adapters: by what they do to a model, not by their factors. */
final class AdapterDiffPage {
    private static final int KEYS_SHOWN = 10;
    private static final int MAX_VALUE_CHARS = 40;

    private AdapterDiffPage() {}

    /** Options of {@code diff}. */
    record Options(Option top, Option only, Option gate, PathOption report) {}

    /** What {@code --json} prints. */
    record Answer(AdapterDiff diff, boolean identical, boolean sameChange, List<Gates.Result> gates, double seconds) {}

    static ExitCode run(Arguments arguments, Screen screen, Options options) throws IOException {
        long start = System.nanoTime();
        if (arguments.has(options.report())) {
            throw arguments.usage(
                    "--report is for models, and these are adapters", "leave it out; --json has all parts");
        }
        int top = arguments.integer(options.top(), DiffCommand.SHOWN, 0, Integer.MAX_VALUE);
        Gates gates = GateFlags.of(arguments, options.gate(), DiffCommand.GATES, "sqnr=30");
        Optional<Pattern> only =
                CheckpointFlags.patterns(arguments, options.only()).stream().findFirst();
        AdapterDiff diff = AdapterComparison.compare(arguments.operand(0), arguments.operand(1), only);
        List<Gates.Result> results = gates.check(name -> measure(name, diff));
        double seconds = (System.nanoTime() - start) / 1e9;
        screen.answer(
                arguments,
                new Answer(diff, diff.identical(), diff.sameChange(), results, seconds),
                () -> page(diff, top, results, seconds));
        return GateFlags.exitCode(results);
    }

    private static Gates.Measure measure(String name, AdapterDiff diff) {
        return switch (name) {
            case "cosine" ->
                new Gates.Measure(
                        diff.parts().stream()
                                .mapToDouble(AdapterDiff.Part::cosine)
                                .min()
                                .orElse(Double.NaN),
                        "worst part");
            case "sqnr" -> new Gates.Measure(decibels(diff.worst()), "worst part");
            case "matched" -> new Gates.Measure(diff.matched(), "");
            default -> throw new IllegalArgumentException("no measure " + name);
        };
    }

    private static double decibels(double relative) {
        return -20 * Math.log10(relative);
    }

    private static String page(AdapterDiff diff, int top, List<Gates.Result> gates, double seconds) {
        StringBuilder page = new StringBuilder(new Table()
                .row("A", diff.a())
                .row("B", diff.b())
                .row("method", diff.method())
                .row("compared", diff.parts().size() + ", " + same(diff) + " the same")
                .row(
                        "all together",
                        diff.parts().isEmpty()
                                ? "nothing in common"
                                : "relative difference " + significant(diff.relative()))
                .row("time", Quantity.seconds(seconds))
                .text(0));
        List<AdapterDiff.Part> different = diff.parts().stream()
                .filter(p -> p.relative() > AdapterDiff.SAME)
                .toList();
        if (!different.isEmpty()) {
            long limit = top == 0 ? Long.MAX_VALUE : top;
            Table table = new Table().heading("module, worst first", "what", "relative", "cosine", "|A|", "|B|");
            different.stream()
                    .limit(limit)
                    .forEach(p -> table.row(
                            p.name(),
                            p.what(),
                            significant(p.relative()),
                            DiffCommand.number(p.cosine(), 4),
                            significant(p.normA()),
                            significant(p.normB())));
            page.append('\n').append(table.text(0));
            if (different.size() > limit) {
                page.append("and ").append(different.size() - limit).append(" more (--top 0 shows all)\n");
            }
        }
        appendKeys(page, diff);
        DiffCommand.appendNames(
                page,
                "cannot be compared",
                diff.uncomparable().stream().map(DiffCommand::uncomparable).toList());
        DiffCommand.appendNames(page, "only in A", diff.onlyA());
        DiffCommand.appendNames(page, "only in B", diff.onlyB());
        page.append('\n').append(verdict(diff)).append('\n');
        gates.forEach(g -> page.append(GateFlags.line(g)));
        return page.toString();
    }

    private static void appendKeys(StringBuilder page, AdapterDiff diff) {
        if (diff.keys().isEmpty()) {
            return;
        }
        Table keys = new Table().heading("key", "A", "B");
        diff.keys().stream().limit(KEYS_SHOWN).forEach(k -> keys.row(k.name(), shortened(k.a()), shortened(k.b())));
        page.append('\n').append(keys.text(0));
        if (diff.keys().size() > KEYS_SHOWN) {
            page.append("and ").append(diff.keys().size() - KEYS_SHOWN).append(" more (--json lists all)\n");
        }
    }

    private static String verdict(AdapterDiff diff) {
        if (diff.identical()) {
            return "The adapters are identical.";
        }
        return diff.sameChange()
                ? "Both change a model in the same way"
                        + (diff.sameBytes() ? "." : ", by other factors or number types.")
                : "The adapters change a model in different ways.";
    }

    private static long same(AdapterDiff diff) {
        return diff.parts().stream()
                .filter(p -> p.relative() <= AdapterDiff.SAME)
                .count();
    }

    private static String shortened(String value) {
        return value.length() <= MAX_VALUE_CHARS ? value : value.substring(0, MAX_VALUE_CHARS - 3) + "...";
    }

    private static String significant(double x) {
        return String.format(Locale.ROOT, "%.3g", x);
    }
}
