package dev.octet.cli;

import dev.octet.pipeline.StatisticsFacts;
import dev.octet.pipeline.run.RunSummary;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** What {@code inspect} prints of what training and calibration left, for people. */
final class ArtifactPage {
    private static final int SHOWN = 10;

    private ArtifactPage() {}

    /** A training run. */
    static String of(RunSummary run) {
        Table table = new Table()
                .row("run", run.folder())
                .row("model", run.model() + (run.modelThere() ? "" : " (no longer there)"))
                .row("precision", run.precision())
                .row("parameters", ModelPage.count(run.parameters()) + " trained")
                .row("steps", run.step() + " of " + run.steps() + (run.step() >= run.steps() ? ", complete" : ""));
        if (run.loss() != null && run.bestLoss() != null) {
            table.row("loss", String.format(Locale.ROOT, "last %.4f, best %.4f", run.loss(), run.bestLoss()));
        }
        RunSummary.Evaluation evaluation = run.evaluation();
        if (evaluation != null) {
            String perplexity = evaluation.perplexity() == null
                    ? ""
                    : String.format(Locale.ROOT, ", perplexity %.3f", evaluation.perplexity());
            table.row(
                    "evaluation",
                    String.format(
                            Locale.ROOT,
                            "%.4f at step %d, best %.4f%s",
                            evaluation.loss(),
                            evaluation.step(),
                            run.bestEvalLoss(),
                            perplexity));
        }
        table.row(
                "checkpoints",
                run.checkpoints().isEmpty()
                        ? "none"
                        : "steps "
                                + run.checkpoints().stream()
                                        .map(String::valueOf)
                                        .collect(Collectors.joining(", ")));
        if (run.config() != null) {
            table.row("config", run.config());
        }
        table.row("started", run.started() + (run.sessions() > 1 ? ", " + run.sessions() + " sessions" : ""))
                .row("device", run.device())
                .row("octet", run.octet());
        if (run.resumeWith() != null) {
            table.row("continue with", run.resumeWith());
        }
        if (run.exportWith() != null) {
            table.row("export with", run.exportWith());
        }
        return table.text(0);
    }

    /**
     * Statistics or second moments.
     *
     * @param all whether to list all activations, or the widest
     */
    static String of(StatisticsFacts facts, boolean all) {
        boolean moments = facts.kind().equals("second-moments");
        Table head = new Table()
                .row("file", facts.path())
                .row("format", moments ? "second moments, for --rounding gptq" : "statistics of activations")
                .row("size", Quantity.bytes(facts.fileBytes()));
        if (facts.model() != null) {
            head.row("model", "SHA-256 " + facts.model());
        }
        if (facts.samples() > 0) {
            head.row(
                    "samples", facts.samples() + (facts.complete() ? "" : " (interrupted: calibrate again to finish)"));
        }
        facts.data().forEach(d -> head.row("data", d.name() + "  " + d.samplesDone() + " of " + d.samplesTotal()));
        head.row("activations", facts.activations().size()).row("octet", facts.octet());
        StringBuilder page = new StringBuilder(head.text(0));
        List<StatisticsFacts.Activation> shown = new ArrayList<>(facts.activations());
        if (!all && !moments) {
            shown.sort(Comparator.comparingDouble(ArtifactPage::amax).reversed());
        }
        Table table = moments
                ? new Table().heading("activation", "channels", "rows")
                : new Table()
                        .heading(all ? "activation" : "activation, widest first", "min", "max", "rms", "not finite");
        shown.stream().limit(all ? Long.MAX_VALUE : SHOWN).forEach(a -> table.row(cells(a)));
        page.append('\n').append(table.text(0));
        if (!all && shown.size() > SHOWN) {
            page.append("and ").append(shown.size() - SHOWN).append(" more (--tensors lists all)\n");
        }
        return page.toString();
    }

    private static double amax(StatisticsFacts.Activation a) {
        return a.min() == null || a.max() == null ? 0 : Math.max(Math.abs(a.min()), Math.abs(a.max()));
    }

    private static Object[] cells(StatisticsFacts.Activation a) {
        if (a.channels() != null) {
            return new Object[] {a.name(), a.channels(), a.elements()};
        }
        return new Object[] {a.name(), number(a.min()), number(a.max()), number(a.rms()), a.notFinite()};
    }

    private static String number(@Nullable Number x) {
        return x == null ? "" : String.format(Locale.ROOT, "%.4g", x.doubleValue());
    }
}
