package dev.octet.cli;

import dev.octet.pipeline.Schemes;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** What quantize prints of errors that statistics foretell. */
final class SchemesPage {
    private static final int SHOWN = 12;

    private SchemesPage() {}

    /** All schemes in one table. */
    static void print(Schemes.Comparison comparison, Arguments arguments, Screen screen) {
        if (arguments.has(Flags.JSON)) {
            screen.out().println(Json.answer(arguments.verb(), comparison));
            return;
        }
        Table table = new Table();
        table.row("recipe", "rounding", "bits per weight", "weights", "SQNR of outputs", "worst Linear", "cannot");
        for (Schemes.Scheme s : comparison.schemes()) {
            double worst = s.layers().stream()
                    .mapToDouble(Schemes.Layer::predictedDb)
                    .min()
                    .orElse(Double.NaN);
            table.row(
                    s.recipe(),
                    s.rounding(),
                    String.format(Locale.ROOT, "%.2f", s.bitsPerWeight()),
                    Quantity.bytes(s.weightBytes()),
                    decibels(s.sqnrDb()),
                    decibels(worst),
                    s.refused() == 0 ? "" : s.refused() + " Linears");
        }
        screen.out().print(table.text(0));
        screen.out()
                .println("predicted from " + comparison.samples() + " samples with " + comparison.calibrator()
                        + ", each Linear alone; nothing was written");
    }

    /** The Linears of one scheme, the worst first; nothing where nothing was predicted. */
    static void print(Schemes.@Nullable Scheme scheme, Screen screen) {
        if (scheme == null) {
            return;
        }
        boolean measured = scheme.layers().stream().anyMatch(l -> l.measuredDb() != null);
        Table table = new Table();
        List<Schemes.Layer> worst = scheme.layers().stream()
                .sorted(Comparator.comparingDouble(Schemes.Layer::predictedDb))
                .limit(SHOWN)
                .toList();
        for (Schemes.Layer l : worst) {
            Double truth = l.measuredDb();
            table.row(
                    l.weight(),
                    decibels(l.predictedDb()) + (truth == null ? "" : ", measured " + decibels(truth)),
                    "weight " + decibels(l.weightDb())
                            + (Double.isInfinite(l.inputDb()) ? "" : ", input " + decibels(l.inputDb())));
        }
        screen.out()
                .print("\n"
                        + TextStyle.heading("SQNR of Linears' outputs, predicted" + (measured ? " and measured" : "")
                                + ": " + decibels(scheme.sqnrDb()) + " on average")
                        + "\n" + table.text(2));
        if (scheme.layers().size() > SHOWN) {
            screen.out().println("  and " + (scheme.layers().size() - SHOWN) + " more (--json lists all)");
        }
    }

    private static String decibels(double db) {
        return Double.isNaN(db) ? "" : Double.isInfinite(db) ? "exact" : String.format(Locale.ROOT, "%.1f dB", db);
    }
}
