package dev.octet.cli;

import dev.octet.pipeline.ConversionPlan;
import dev.octet.pipeline.TrainingPlan;
import dev.octet.pipeline.plan.Choice;
import dev.octet.pipeline.plan.DeviceBytes;
import dev.octet.pipeline.plan.ParameterBytes;
import dev.octet.pipeline.plan.StepTime;
import dev.octet.pipeline.plan.Traffic;
import dev.octet.trainer.collective.Mesh;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/** What plan prints for people. */
final class PlanPage {
    private static final int WAYS = 8;
    private static final int MISSING = 5;
    private static final int REASONS = 3;
    private static final double MINUTE = 60;

    private PlanPage() {}

    /** The whole page. */
    static String of(TrainingPlan.Result result) {
        StringBuilder page = new StringBuilder(head(result).text(0));
        if (result.machine() != null) {
            page.append('\n').append(machine(result, result.machine()).text(0));
        }
        if (result.cluster() != null) {
            cluster(result, result.cluster(), page);
        }
        return page.toString();
    }

    /** The page of a conversion. */
    static String of(ConversionPlan.Result r) {
        return new Table()
                .row("model", r.model())
                .row(
                        "converts",
                        Quantity.of(r.weights(), "weights") + " to " + r.recipe() + ", layout " + r.target() + ", in "
                                + Quantity.of(r.files(), "files"))
                .row("reads", Quantity.bytes(r.sourceBytes()))
                .row(
                        "disk",
                        Table.cell(
                                Quantity.bytes(r.targetBytes()) + " of " + Quantity.bytes(r.freeBytes()) + " free at "
                                        + r.output(),
                                r.fits() ? Tone.GOOD : Tone.BAD))
                .row(
                        "memory",
                        Quantity.bytes(r.memoryBytes()) + " at its peak, and what the system has for the page cache")
                .row(
                        "time",
                        Quantity.seconds(r.seconds()) + ": the model's disk gives "
                                + Quantity.rate(r.readPerSecond(), "bytes") + ", a trial converts "
                                + Quantity.rate(r.convertedPerSecond(), "bytes") + ", measured now")
                .text(0);
    }

    private static Table head(TrainingPlan.Result r) {
        TrainingPlan.Step step = r.step();
        ParameterBytes each = r.bytesEach();
        Table table = new Table()
                .row("model", r.model())
                .row(
                        "parameters",
                        String.format(Locale.ROOT, "%,d", r.parameters())
                                + (r.activeParameters() < r.parameters()
                                        ? String.format(
                                                Locale.ROOT, ", %,d of them compute for a token", r.activeParameters())
                                        : ""))
                .row(
                        "step",
                        Quantity.of(step.samples(), "samples")
                                + (step.length() > 0
                                        ? String.format(
                                                Locale.ROOT,
                                                " of %,d tokens, %s",
                                                step.length(),
                                                Quantity.of(step.tokens(), "tokens"))
                                        : "")
                                + " in " + step.precision())
                .row("operations", operations(step));
        return table.row(
                "bytes",
                String.format(
                        Locale.ROOT,
                        "%s a parameter (weights %s, masters %s, gradients %s, moments %s): %s",
                        number(each.total()),
                        number(each.weights()),
                        number(each.masters()),
                        number(each.gradients()),
                        number(each.moments()),
                        Quantity.bytes((long) (each.total() * r.parameters()))));
    }

    private static String operations(TrainingPlan.Step step) {
        String all = String.format(Locale.ROOT, "%.3g in products", step.flops());
        return step.sixNd() > 0
                ? all
                        + String.format(
                                Locale.ROOT, " (6 N D: %.3g; attention: %.3g)", step.sixNd(), step.attentionFlops())
                : all;
    }

    private static String number(double x) {
        return x == Math.rint(x) ? String.valueOf((long) x) : String.format(Locale.ROOT, "%.2f", x);
    }

    private static Table machine(TrainingPlan.Result r, TrainingPlan.Machine m) {
        double samples = r.step().samples() / m.seconds();
        return new Table()
                .row(
                        "memory",
                        Table.cell(
                                Quantity.bytes(m.peak()) + " at its peak, of "
                                        + (m.limit() > 0 ? Quantity.bytes(m.limit()) : "memory that is not known"),
                                m.fits() ? Tone.GOOD : Tone.BAD))
                .row(
                        "",
                        "weights and their state " + Quantity.bytes(m.lasting()) + ", within a step "
                                + Quantity.bytes(m.within()) + ", the process " + Quantity.bytes(m.process()))
                .row("fits", m.fits() ? "yes" : "no: octet train refuses it; " + m.fix())
                .row(
                        "machine",
                        Quantity.rate(m.productRate(), "FLOP") + " in products, "
                                + Quantity.rate(m.memoryRate(), "bytes") + " of memory, "
                                + Quantity.rate(m.castRate(), "elements") + " to and from FP8, measured now")
                .row(
                        "time",
                        seconds(m.seconds()) + " a step, " + Quantity.rate(samples, "samples")
                                + String.format(Locale.ROOT, ", %.0f %% of the rate of products", 100 * m.mfu()));
    }

    private static void cluster(TrainingPlan.Result r, TrainingPlan.Cluster c, StringBuilder page) {
        page.append(new Table()
                .row(
                        "hardware",
                        c.hardware() + ", " + Quantity.bytes(c.memory()) + " each, of which a plan may use "
                                + Quantity.bytes(c.usable()))
                .row("", c.source())
                .text(0));
        if (c.best() == null) {
            page.append('\n')
                    .append(TextStyle.here().paint(Tone.BAD, "No way of training fits " + c.hardware() + "."))
                    .append(c.enough() > 0 ? " It takes " + c.enough() + " of them.\n" : "\n");
        } else {
            page.append('\n')
                    .append(TextStyle.heading("Ways that fit, the fastest first"))
                    .append('\n')
                    .append(ways(c.ways(), c.usable(), WAYS).text(2));
            more(c.ways().size() - WAYS, page);
            page.append('\n')
                    .append(TextStyle.heading("The fastest"))
                    .append('\n')
                    .append(best(r, c, c.best()).text(2));
        }
        TrainingPlan.Way plain = c.asConfigured();
        if (plain != null && plain.bytes() > c.usable()) {
            page.append('\n')
                    .append("Whole copies of the model in micro-batches of ")
                    .append(plain.choice().microBatch() + (plain.choice().microBatch() == 1 ? " sample" : " samples"))
                    .append(" need ")
                    .append(Quantity.bytes(plain.bytes()))
                    .append(" each. ")
                    .append(
                            c.change().isEmpty()
                                    ? "No change fits.\n"
                                    : "The smallest change that fits: --mesh " + c.change() + "\n");
        }
        if (!c.missing().isEmpty()) {
            page.append('\n')
                    .append(TextStyle.heading("Do not fit, those that miss least first"))
                    .append('\n')
                    .append(ways(c.missing(), c.usable(), MISSING).text(2));
            more(c.missing().size() - MISSING, page);
        }
        if (!c.against().isEmpty()) {
            page.append('\n').append(TextStyle.heading("Cannot be")).append('\n');
            c.against().stream()
                    .limit(REASONS)
                    .forEach(reason -> page.append("  ").append(reason).append('\n'));
            more(c.against().size() - REASONS, page);
        }
        if (c.schedule() != null && c.best() != null) {
            schedule(c.schedule(), c.best().choice().microBatches(), page);
        }
    }

    private static void more(int count, StringBuilder page) {
        if (count > 0) {
            page.append("  and ").append(count).append(" more (--json lists all)\n");
        }
    }

    private static Table ways(List<TrainingPlan.Way> ways, long usable, int shown) {
        Table table = new Table()
                .heading("data", "tensor", "pipeline", "zero", "micro", "recompute", "memory", "step", "MFU");
        ways.stream().limit(shown).forEach(w -> {
            Choice c = w.choice();
            Mesh m = c.mesh();
            table.row(
                    m.data(),
                    m.tensor(),
                    m.pipeline() + (m.chunks() > 1 ? " x " + m.chunks() : ""),
                    m.zero(),
                    c.microBatch(),
                    c.recompute() ? "all" : "none",
                    Table.cell(Quantity.bytes(w.bytes()), w.bytes() > usable ? Tone.BAD : Tone.PLAIN),
                    seconds(w.seconds()),
                    String.format(Locale.ROOT, "%.1f %%", 100 * w.mfu()));
        });
        return table;
    }

    private static Table best(TrainingPlan.Result r, TrainingPlan.Cluster c, TrainingPlan.Way w) {
        DeviceBytes b = w.choice().bytes();
        StepTime t = w.choice().time();
        Traffic x = w.choice().traffic();
        Table table = new Table()
                .row(
                        "memory",
                        parts(
                                List.of("weights", "masters", "gradients", "moments", "activations", "gathered"),
                                List.of(
                                        b.weights(),
                                        b.masters(),
                                        b.gradients(),
                                        b.moments(),
                                        b.activations(),
                                        b.buffers())))
                .row("time", times(t))
                .row(
                        "sent",
                        parts(List.of("data", "tensor", "pipeline"), List.of((long) x.data(), (long) x.tensor(), (long)
                                x.pipeline())))
                .row(
                        "rate",
                        (r.step().length() > 0
                                        ? Quantity.rate(w.tokensPerSecond(), "tokens")
                                        : Quantity.rate(w.tokensPerSecond(), "samples"))
                                + String.format(
                                        Locale.ROOT,
                                        ", %.1f %% of the peak of BF16%s",
                                        100 * w.mfu(),
                                        w.bubble() > 0
                                                ? String.format(Locale.ROOT, ", bubble %.1f %%", 100 * w.bubble())
                                                : ""));
        if (w.days() > 0) {
            table.row("training", String.format(Locale.ROOT, "%.3g days", w.days()));
        }
        if (w.cost() > 0) {
            table.row(
                    "cost",
                    String.format(Locale.ROOT, "%,.2f", w.cost()) + (w.days() > 0 ? " in all" : " a step") + " for "
                            + c.hardware());
        }
        return table;
    }

    /** Parts with their names; those of nothing are left out. */
    private static String parts(List<String> names, List<Long> bytes) {
        List<String> parts = new ArrayList<>();
        for (int i = 0; i < names.size(); i++) {
            if (bytes.get(i) > 0) {
                parts.add(names.get(i) + " " + Quantity.bytes(bytes.get(i)));
            }
        }
        return parts.isEmpty() ? "nothing" : String.join(", ", parts);
    }

    private static String times(StepTime t) {
        List<String> names = List.of("compute", "tensor", "pipeline", "bubble", "data", "update");
        List<Double> all = List.of(t.compute(), t.tensor(), t.pipeline(), t.bubble(), t.data(), t.update());
        List<String> parts = new ArrayList<>();
        for (int i = 0; i < names.size(); i++) {
            if (all.get(i) > 0) {
                parts.add(names.get(i) + " " + seconds(all.get(i)));
            }
        }
        return parts.stream().collect(Collectors.joining(", "));
    }

    private static void schedule(TrainingPlan.Drawing schedule, long microBatches, StringBuilder page) {
        page.append('\n')
                .append(TextStyle.heading("Schedule of the fastest"))
                .append(
                        schedule.microBatches() < microBatches
                                ? ", with " + schedule.microBatches() + " of its " + microBatches + " micro-batches\n"
                                : "\n");
        schedule.lines().forEach(line -> page.append("  ").append(line).append('\n'));
        page.append("  0-9: forward of a micro-batch, a-j: its backward, point: waiting")
                .append(schedule.each() > 1 ? "; a character for each " + schedule.each() + " forwards\n" : "\n");
    }

    /** A time in three digits: {@code 12.5 s}, {@code 0.83 s}, {@code 3.2 ms}. */
    private static String seconds(double s) {
        if (s < 0.1) {
            return String.format(Locale.ROOT, "%.3g ms", 1000 * s);
        }
        return s < 100 * MINUTE ? String.format(Locale.ROOT, "%.3g s", s) : Quantity.remaining(s);
    }
}
