package dev.octet.cli;

import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.hook.NonFinite;
import dev.octet.trainer.hook.RunControl;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.RunPlan;
import dev.octet.trainer.hook.StepReport;
import dev.octet.trainer.hook.TrainingHook;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/** What a run shows: a block at the start, lines while it goes on, on standard error; a block at the end, on standard output. */
final class TrainPage implements TrainingHook {
    private static final long TERMINAL_EVERY_NANOS = TimeUnit.MILLISECONDS.toNanos(500);
    private static final long PLAIN_EVERY_NANOS = TimeUnit.SECONDS.toNanos(3);
    private static final double EMA_DECAY = 0.95;

    private final Arguments arguments;
    private final Screen screen;
    private final ProgressStyle style;
    private final Path model;
    private final Path configFile;
    private final Path folder;
    private final TrainingConfig config;
    private final AtomicReference<@Nullable RunControl> control = new AtomicReference<>();

    private String data = "";
    private long firstStep = 1;
    private long lastStep = 1;
    private long startNanos;
    private long shownNanos;
    private double ema = Double.NaN;
    private double bestEval = Double.NaN;
    private long memoryBytes;

    /** What {@code --json} prints at the end. */
    record Answer(
            String run,
            String reason,
            long step,
            String message,
            double bestLoss,
            double lastLoss,
            @Nullable Double bestEvalLoss,
            long steps,
            long skipped,
            double seconds,
            double computeSeconds,
            double dataSeconds,
            double checkpointSeconds,
            double evaluationSeconds,
            long memoryBytes,
            String resume) {}

    /** What {@code --json} prints for {@code --dry-run}. */
    record Planned(
            String model,
            String device,
            String precision,
            long trainedParameters,
            long frozenParameters,
            long lastingBytes,
            long temporaryBytes,
            String data) {}

    TrainPage(Arguments arguments, Screen screen, Path model, Path configFile, Path folder, TrainingConfig config) {
        this.arguments = arguments;
        this.screen = screen;
        this.style = arguments.progressStyle(screen);
        this.model = model;
        this.configFile = configFile;
        this.folder = folder;
        this.config = config;
    }

    void data(Samples train, @Nullable Samples eval) {
        long perEpoch = train.count() / config.batchSize();
        data = train.name() + ", " + train.count() + " samples, " + perEpoch + " batches of " + config.batchSize()
                + " an epoch" + (eval == null ? "" : "; evaluated on " + eval.name() + ", " + eval.count());
    }

    /** The command line that was typed, or one that does the same. */
    String command() {
        return "octet train " + model + " --config " + configFile + " -o " + folder;
    }

    private String resumeCommand() {
        return command() + " --resume";
    }

    private Table table(RunPlan p) {
        Table table = new Table()
                .row("model", model)
                .row(
                        "parameters",
                        String.format(
                                Locale.ROOT,
                                "%,d trained in %d tensors, %,d frozen",
                                p.trainedElements(),
                                p.trained().size(),
                                p.frozenElements()))
                .row("precision", p.precision())
                .row("loss", loss())
                .row(
                        "optimizer",
                        config.optimizer().type().name().toLowerCase(Locale.ROOT) + ", lr "
                                + config.optimizer().lr() + ", "
                                + config.schedule().type().name().toLowerCase(Locale.ROOT) + " after "
                                + config.schedule().warmup() + " steps of warm-up")
                .row("data", data)
                .row(
                        "steps",
                        config.steps() + " of " + config.gradientAccumulation() + " x " + config.batchSize()
                                + " samples, seed " + config.seed())
                .row(
                        "memory",
                        Table.bytes(p.lastingBytes()) + " weights and their state, " + Table.bytes(p.temporaryBytes())
                                + " within a step")
                .row("device", p.device() + ", " + arguments.threads() + " threads");
        p.notes().forEach(n -> table.row("note", n));
        return table;
    }

    private String loss() {
        String type = config.loss().type().name().toLowerCase(Locale.ROOT).replace('_', '-');
        return config.loss()
                .distillation()
                .map(d -> type + ", of teacher " + d.teacher()
                        + (d.temperature() == 1 ? "" : " at temperature " + d.temperature())
                        + (d.weight() < 1 ? ", which weighs " + d.weight() + ", and of the labels" : ""))
                .orElse(type);
    }

    /** What a run would do. */
    void plan(RunPlan p) {
        if (arguments.has(Flags.JSON)) {
            screen.out()
                    .println(Json.page(new Planned(
                            model.toString(),
                            p.device(),
                            p.precision(),
                            p.trainedElements(),
                            p.frozenElements(),
                            p.lastingBytes(),
                            p.temporaryBytes(),
                            data)));
        } else {
            screen.out().print(table(p).text(0));
        }
    }

    @Override
    public void runStarted(RunStart start, RunControl runControl) {
        control.set(runControl);
        firstStep = start.firstStep();
        lastStep = start.lastStep();
        startNanos = System.nanoTime();
        if (style == ProgressStyle.BAR || style == ProgressStyle.PLAIN) {
            Table table = table(start.plan())
                    .row("run", folder + (firstStep > 1 ? ", goes on after step " + (firstStep - 1) : ", new"));
            screen.err().print(table.text(0));
        }
    }

    @Override
    public void afterStep(StepReport r) {
        memoryBytes = Math.max(memoryBytes, r.memoryBytes());
        if (Double.isFinite(r.loss())) {
            ema = Double.isNaN(ema) ? r.loss() : EMA_DECAY * ema + (1 - EMA_DECAY) * r.loss();
        }
        long now = System.nanoTime();
        long every = style == ProgressStyle.PLAIN ? PLAIN_EVERY_NANOS : TERMINAL_EVERY_NANOS;
        boolean due = r.step() == firstStep || r.step() == lastStep || now - shownNanos >= every;
        if (style == ProgressStyle.NONE || !due) {
            return;
        }
        shownNanos = now;
        double elapsed = (now - startNanos) / 1e9;
        double eta = elapsed / (r.step() - firstStep + 1) * (lastStep - r.step());
        screen.err().println(style == ProgressStyle.JSON ? Json.line(fields(r, eta)) : line(r, eta));
    }

    private Map<String, Object> fields(StepReport r, double eta) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("step", r.step());
        fields.put("steps", config.steps());
        fields.put("loss", r.loss());
        r.lossParts().forEach((part, loss) -> fields.put(part + "_loss", loss));
        fields.put("lr", r.lr());
        fields.put("grad_norm", r.gradNorm());
        fields.put("loss_scale", r.lossScale());
        fields.put("tokens_per_second", r.tokens() / r.seconds());
        fields.put("memory_bytes", r.memoryBytes());
        fields.put("eta_seconds", eta);
        return fields;
    }

    private String line(StepReport r, double eta) {
        String scale = r.lossScale() == 1 ? "" : String.format(Locale.ROOT, "  scale %.0f", r.lossScale());
        String unit = r.tokens() == r.samples() ? "samples/s" : "tok/s";
        long seconds = Math.round(eta);
        return String.format(
                Locale.ROOT,
                "step %d/%d  loss %.4f (ema %.4f)  lr %.1e  gnorm %.2f%s  %s %,.0f  mem %s  data %.1f%%  eta"
                        + " %02d:%02d:%02d",
                r.step(),
                config.steps(),
                r.loss(),
                ema,
                r.lr(),
                r.gradNorm(),
                scale,
                unit,
                r.tokens() / r.seconds(),
                Table.bytes(r.memoryBytes()),
                100 * r.dataSeconds() / r.seconds(),
                seconds / 3600,
                seconds / 60 % 60,
                seconds % 60);
    }

    private void event(String line) {
        if (style != ProgressStyle.NONE && style != ProgressStyle.JSON) {
            screen.err().println(line);
        }
    }

    @Override
    public void lossScaleChanged(long step, double before, double after) {
        event(String.format(Locale.ROOT, "step %d: loss scale %.0f -> %.0f", step, before, after));
    }

    @Override
    public void nonFiniteSeen(NonFinite seen) {
        // said even when progress is not wanted
        String where = seen.where().isEmpty() ? "" : ", first in " + seen.where();
        screen.err()
                .println("step " + seen.step() + ": the " + seen.what() + " is not finite" + where
                        + (seen.skipped() ? "; the step is skipped" : "; the run stops"));
    }

    @Override
    public void evaluated(EvaluationReport r) {
        bestEval = Double.isNaN(bestEval) ? r.loss() : Math.min(bestEval, r.loss());
        event(String.format(
                Locale.ROOT,
                "step %d: evaluation loss %.4f over %d samples, %.1f s",
                r.step(),
                r.loss(),
                r.samples(),
                r.seconds()));
    }

    @Override
    public void checkpointWritten(CheckpointReport r) {
        event(String.format(
                Locale.ROOT,
                "step %d: checkpoint %s, %s, %.1f s",
                r.step(),
                r.folder(),
                Table.bytes(r.bytes()),
                r.seconds()));
    }

    /** Asks the run to stop after its step. */
    void interrupt() {
        RunControl running = control.get();
        if (running != null) {
            running.stop(RunEnd.Reason.INTERRUPTED, "it was asked to stop");
        }
    }

    /** The block at the end. */
    void end(RunEnd end) {
        RunEnd.Totals t = end.totals();
        double seconds = (System.nanoTime() - startNanos) / 1e9;
        boolean goesOn = end.step() < config.steps();
        if (arguments.has(Flags.JSON)) {
            screen.out()
                    .println(Json.page(new Answer(
                            folder.toString(),
                            end.reason().name().toLowerCase(Locale.ROOT),
                            end.step(),
                            end.message(),
                            t.bestLoss(),
                            t.lastLoss(),
                            Double.isNaN(bestEval) ? null : bestEval,
                            t.steps(),
                            t.skipped(),
                            seconds,
                            t.computeSeconds(),
                            t.dataSeconds(),
                            t.checkpointSeconds(),
                            t.evaluationSeconds(),
                            memoryBytes,
                            goesOn ? resumeCommand() : "")));
            return;
        }
        Table table = new Table()
                .row("run", folder)
                .row(
                        "ended",
                        end.reason().name().toLowerCase(Locale.ROOT).replace('_', ' ') + " at step " + end.step()
                                + (end.message().isEmpty() ? "" : ": " + end.message()))
                .row("loss", String.format(Locale.ROOT, "best %.4f, last %.4f", t.bestLoss(), t.lastLoss()));
        if (!Double.isNaN(bestEval)) {
            table.row("evaluation", String.format(Locale.ROOT, "best %.4f", bestEval));
        }
        table.row("steps", t.steps() + (t.skipped() == 0 ? "" : ", " + t.skipped() + " skipped"))
                .row(
                        "time",
                        String.format(
                                Locale.ROOT,
                                "%.1f s: compute %.1f, data %.1f, evaluation %.1f, checkpoints %.1f",
                                seconds,
                                t.computeSeconds(),
                                t.dataSeconds(),
                                t.evaluationSeconds(),
                                t.checkpointSeconds()))
                .row("memory", Table.bytes(memoryBytes));
        Optional.of(resumeCommand()).filter(c -> goesOn).ifPresent(c -> table.row("go on with", c));
        screen.out().print(table.text(0));
    }
}
