package dev.octet.cli;

import dev.octet.formats.error.OctetException;
import dev.octet.formats.peft.PeftType;
import dev.octet.pipeline.Train;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.pipeline.run.RunSummary;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.guard.GuardDecision;
import dev.octet.trainer.hook.DebugFile;
import dev.octet.trainer.hook.Fp8Report;
import dev.octet.trainer.hook.Fp8Tensor;
import dev.octet.trainer.hook.Fp8Warning;
import dev.octet.trainer.hook.GuardReport;
import dev.octet.trainer.hook.NonFinite;
import dev.octet.trainer.hook.Pace;
import dev.octet.trainer.hook.RunControl;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.RunPlan;
import dev.octet.trainer.hook.RunningLoss;
import dev.octet.trainer.hook.StagePlan;
import dev.octet.trainer.hook.StatePlan;
import dev.octet.trainer.hook.StepReport;
import dev.octet.trainer.hook.TrainingHook;
import dev.octet.trainer.hook.ZeroPlan;
import dev.octet.trainer.loss.LossValue;
import dev.octet.trainer.reduction.ReductionReport;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** What a run shows: a block at the start, lines while it continues, on standard error; a block at the end, on standard output. */
final class TrainPage implements TrainingHook {
    private static final long LIVE_EVERY_NANOS = TimeUnit.MILLISECONDS.toNanos(200);
    private static final long JSON_EVERY_NANOS = TimeUnit.MILLISECONDS.toNanos(500);
    private static final long PLAIN_EVERY_NANOS = TimeUnit.SECONDS.toNanos(3);

    /** Share of a step's time that reading samples may take before the line says so. */
    private static final double SLOW_DATA = 0.1;

    /** Characters of the bar between its brackets. */
    private static final int BAR = 8;

    /** Layers named for each reason not to be in FP8. */
    private static final int NAMED_LAYERS = 3;

    /** Tensors in the table of FP8 health. */
    private static final int WORST_TENSORS = 5;

    private final Screen screen;
    private final ProgressStyle style;
    private final Form form;
    private final int threads;
    private final Train.Request request;
    private final Path model;
    private final Path folder;
    private final TrainingConfig config;
    private final List<String> notes;
    private final String data;
    private final long evaluated;
    private final Optional<LogCadence> lines;
    private final LiveLine live;
    private final RunningLoss ema = new RunningLoss();
    private final Pace pace = new Pace();
    private long firstStep = 1;
    private long lastStep = 1;
    private long startNanos;
    private long stepNanos;
    private long shownNanos;
    private long liveNanos;
    private double bestEval = Double.NaN;
    private double bestPerplexity = Double.NaN;
    private long memoryBytes;
    private @Nullable Fp8Report fp8;
    private @Nullable GuardReport guard;
    private long demotions;
    private long promotions;
    private long rollbacks;
    private boolean hasCheckpoint;
    private long saturatedCodes;
    private long reducedCodes;
    private @Nullable ReductionReport worstReduction;
    private long worstReductionStep;

    /** What {@code --json} prints at the end. */
    record Answer(
            String run,
            String reason,
            long step,
            String message,
            double bestLoss,
            double lastLoss,
            @Nullable Double bestEvalLoss,
            @Nullable Double bestEvalPerplexity,
            long steps,
            long skipped,
            double seconds,
            double computeSeconds,
            double dataSeconds,
            double checkpointSeconds,
            double evaluationSeconds,
            long memoryBytes,
            @Nullable Fp8 fp8Health,
            @Nullable Guard guard,
            @Nullable Saturation reduction,
            String resume,
            String export) {}

    /**
     * How the averages of ranks fitted E4M3 in this session: shares of saturated codes in all steps, in the worst step, and there in the worst tensor.
     */
    record Saturation(
            double saturated, long worstStep, double worstStepSaturated, String worst, double worstSaturated) {
        private String text() {
            return saturated == 0
                    ? "no code saturated"
                    : String.format(
                            Locale.ROOT,
                            "%s of codes saturated, most at step %d: %s, of %s %s",
                            percent(saturated),
                            worstStep,
                            percent(worstStepSaturated),
                            worst,
                            percent(worstSaturated));
        }
    }

    /** What the guard of the run did in this session, and how many of the products it watches are in FP8 at the end. */
    record Guard(long demotions, long promotions, long rollbacks, int demoted, int productsInFp8, int products) {}

    /** How the casts to FP8 did at the last measured step: shares of elements, age in steps, the tensors that lost most. */
    record Fp8(long step, double clipped, double underflowed, long oldestScale, List<Fp8Row> worst) {
        static Fp8 of(Fp8Report r) {
            return new Fp8(
                    r.step(),
                    r.clippedShare(),
                    r.underflowedShare(),
                    r.oldestScale(),
                    r.worst(WORST_TENSORS).stream().map(Fp8Row::of).toList());
        }
    }

    /** One tensor of these. */
    record Fp8Row(
            String tensor,
            String format,
            long elements,
            double clipped,
            double underflowed,
            float amax,
            float scale,
            long scaleAge) {
        static Fp8Row of(Fp8Tensor t) {
            return new Fp8Row(
                    t.name(),
                    t.format().name(),
                    t.elements(),
                    t.clippedShare(),
                    t.underflowedShare(),
                    t.amax(),
                    t.scale(),
                    t.scaleAge());
        }
    }

    /** Matrix products that FP8 leaves alone for one reason. */
    record Kept(String reason, List<String> nodes) {}

    /** What {@code --json} prints for {@code --dry-run}. */
    record Planned(
            String model,
            String device,
            int threads,
            String products,
            String precision,
            int fp8Linears,
            List<Kept> kept,
            long seed,
            long trainedParameters,
            long frozenParameters,
            long lastingBytes,
            long temporaryBytes,
            String data,
            String run,
            long firstStep,
            List<String> notes,
            @Nullable PlannedStates states,
            @Nullable ZeroPlan shards,
            @Nullable StagePlan stages,
            Train.@Nullable Shortage shortage) {}

    /** Bytes of what is kept for the trained parameters. */
    record PlannedStates(String engine, long weights, long masters, long gradients, long moments, double bytesEach) {
        static PlannedStates of(StatePlan s) {
            return new PlannedStates(
                    s.engine(), s.weights(), s.masters(), s.gradients(), s.moments(), s.each(s.bytes()));
        }
    }

    /** How answers look. */
    enum Form {
        /** For people. */
        TEXT,
        /** For programs. */
        JSON
    }

    private TrainPage(
            Train.Setup setup, Screen screen, ProgressStyle style, Form form, int threads, Optional<LogCadence> lines) {
        this.lines = lines;
        this.live = new LiveLine(screen.err());
        this.screen = screen;
        this.style = style;
        this.form = form;
        this.threads = threads;
        this.request = setup.request();
        this.model = request.model();
        this.folder = request.folder();
        this.config = setup.config();
        this.notes = setup.notes();
        this.data = data(setup);
        this.evaluated = setup.eval().map(Train.Data::count).orElse(0L);
    }

    /** The page of a command line. */
    static TrainPage of(Train.Setup setup, Arguments arguments, Optional<LogCadence> lines, Screen screen) {
        Form form = arguments.has(Flags.JSON) ? Form.JSON : Form.TEXT;
        return new TrainPage(setup, screen, arguments.progressStyle(screen), form, arguments.threads(), lines);
    }

    /** The page of a run that is part of something bigger: for people, on this screen. */
    static TrainPage within(Train.Setup setup, Arguments arguments, Screen screen) {
        ProgressStyle style = arguments.has(Flags.QUIET)
                ? ProgressStyle.NONE
                : screen.terminal() ? ProgressStyle.BAR : ProgressStyle.PLAIN;
        return new TrainPage(setup, screen, style, Form.TEXT, arguments.threads(), Optional.empty());
    }

    private static String data(Train.Setup setup) {
        int batch = setup.config().batchSize();
        Train.Data train = setup.train();
        return train.name() + ", " + train.count() + " samples, " + train.count() / batch + " batches of " + batch
                + " an epoch"
                + setup.eval()
                        .map(e -> "; evaluated on " + e.name() + ", " + e.count())
                        .orElse("");
    }

    private String exportCommand() {
        return RunSummary.exportCommand(folder, model.toString(), adapter());
    }

    /** Method of the adapter that is trained; empty where the model itself is. */
    private Optional<PeftType> adapter() {
        return config.adapter().map(a -> a.config().type());
    }

    /** How an adapter comes into its base. */
    private Optional<String> mergeCommand(long step) {
        return adapter().flatMap(type -> RunSummary.mergeCommand(folder, step, model, type));
    }

    private String resumeCommand() {
        return request.resumeCommandLine();
    }

    private Table table(RunPlan p, long first) {
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
                .row("precision", p.precision());
        p.adapter().ifPresent(a -> table.row("adapter", a.title()));
        fp8Rows(p, table);
        table.row("loss", loss())
                .row(
                        "optimizer",
                        config.optimizer().type().name().toLowerCase(Locale.ROOT) + ", lr "
                                + config.optimizer().lr() + ", "
                                + config.schedule().type().key()
                                + (config.schedule().type().hasWarmup()
                                        ? " after " + counted(config.schedule().warmup(), "step") + " of warm-up"
                                        : String.format(
                                                Locale.ROOT,
                                                " up to %.3g",
                                                config.schedule()
                                                        .schedule(
                                                                config.optimizer()
                                                                        .lr(),
                                                                config.steps())
                                                        .highest())))
                .row("data", data)
                .row(
                        "steps",
                        config.steps()
                                + (config.epochs().isPresent()
                                        ? " (" + config.epochs().getAsDouble() + " epochs)"
                                        : "")
                                + " of " + config.gradientAccumulation() + " x " + config.batchSize()
                                + " samples, seed " + config.seed())
                .row(
                        "buffers",
                        Quantity.bytes(p.lastingBytes()) + " weights and their state, "
                                + Quantity.bytes(p.temporaryBytes()) + " within a step");
        p.states().filter(s -> !s.engine().equals(StatePlan.F32)).ifPresent(s -> stateRows(s, table));
        p.adapter()
                .ifPresent(m -> table.row(
                                "",
                                "weights " + Quantity.bytes(m.weights()) + ", adapter " + Quantity.bytes(m.adapter())
                                        + ", its gradients and moments " + Quantity.bytes(m.states()))
                        .row(
                                "",
                                String.format(
                                        Locale.ROOT,
                                        "full training: %s gradients and moments; adapter: %.1f %% of it",
                                        Quantity.bytes(m.fullStates()),
                                        100 * m.share())));
        p.activations().ifPresent(a -> table.row("activations", a.settings()).row("", kept(a)));
        table.row("device", p.device() + ", " + threads + " threads, products by " + p.products())
                .row("run", folder + (first > 1 ? ", continues after step " + (first - 1) : ", new"))
                .row("metrics", metrics());
        notes(p).forEach(n -> table.row("note", n));
        return table;
    }

    private static void stateRows(StatePlan s, Table table) {
        table.row("states", s.engine())
                .row(
                        "",
                        String.format(
                                Locale.ROOT,
                                "bytes a parameter: weights %.2f, masters %.2f, gradients %.2f,",
                                s.each(s.weights()),
                                s.each(s.masters()),
                                s.each(s.gradients())))
                .row(
                        "",
                        String.format(
                                Locale.ROOT, "moments %.2f; %.2f in all", s.each(s.moments()), s.each(s.bytes())));
    }

    private static void shardRows(ZeroPlan plan, Table table) {
        table.row("memory", "of " + plan.ranks() + " ranks the one that keeps most, by distributed.zero:");
        plan.stages()
                .forEach(s -> table.row(
                        "",
                        String.format(
                                Locale.ROOT,
                                "%d: %s, of it %s between steps%s",
                                s.zero(),
                                Quantity.bytes(s.bytes()),
                                Quantity.bytes(s.lastingBytes()),
                                s.zero() == plan.zero() ? " (this run)" : "")));
    }

    private static void stageRows(StagePlan plan, Table table) {
        table.row(
                "stages",
                plan.stages().size()
                        + (plan.chunks() == 1 ? "" : " of " + plan.chunks() + " chunks of layers each")
                        + ", for " + plan.microBatches()
                        + (plan.microBatches() == 1 ? " micro-batch" : " micro-batches") + " of a step:");
        int number = 1;
        for (StagePlan.Stage s : plan.stages()) {
            table.row(
                    "",
                    String.format(
                            Locale.ROOT,
                            "%d: %.1f %% of the work, %,d weights, at most %d in flight; %s, of it %s between steps",
                            number++,
                            100 * s.share(),
                            s.weights(),
                            s.inFlight(),
                            Quantity.bytes(s.bytes()),
                            Quantity.bytes(s.lastingBytes())));
        }
    }

    /** What the run says of itself, and of the configurations of other libraries that it follows. */
    private List<String> notes(RunPlan p) {
        List<String> all = new ArrayList<>(p.notes());
        if (form == Form.JSON) {
            p.activations().ifPresent(a -> all.add(a.settings() + ": " + kept(a)));
        }
        all.addAll(notes);
        return all;
    }

    private static String kept(RunPlan.ActivationMemory a) {
        return String.format(
                Locale.ROOT,
                "%s within a step, %s if all is kept; %.1f %% computed twice",
                Quantity.bytes(a.bytes()),
                Quantity.bytes(a.plainBytes()),
                100 * a.again());
    }

    private static String counted(long n, String what) {
        return n == 1 ? "1 " + what : n + " " + what + "s";
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

    /** Which Linears are in FP8; which products are not, by reason. */
    private void fp8Rows(RunPlan p, Table table) {
        if (!config.precision().isFp8()) {
            return;
        }
        List<Kept> kept = kept(p);
        int linears = p.keptLinears().size() + p.fp8Linears();
        table.row("in fp8", p.fp8Linears() + " of " + linears + " matrix products of the model");
        for (Kept k : kept) {
            int shown = Math.min(NAMED_LAYERS, k.nodes().size());
            String more = k.nodes().size() > shown ? " and " + (k.nodes().size() - shown) + " more" : "";
            table.row(
                    "not",
                    k.nodes().size() + ": " + k.reason() + ": "
                            + String.join(", ", k.nodes().subList(0, shown)) + more);
        }
    }

    private static List<Kept> kept(RunPlan p) {
        Map<String, List<String>> byReason = new LinkedHashMap<>();
        p.keptLinears()
                .forEach(k -> byReason.computeIfAbsent(k.reason(), r -> new ArrayList<>())
                        .add(k.node()));
        return byReason.entrySet().stream()
                .map(e -> new Kept(e.getKey(), e.getValue()))
                .toList();
    }

    private String metrics() {
        boolean health = config.fp8Health().every() > 0;
        return "metrics.jsonl, tensorboard/"
                + (health
                        ? ", fp8_health.jsonl every "
                                + counted(config.fp8Health().every(), "step")
                        : "")
                + (config.debug().reads() ? ", " + DebugFile.NAME : "") + " in " + folder;
    }

    /** What a run would do, from its first step on. */
    void plan(Train.Planned planned) {
        RunPlan p = planned.plan();
        long first = planned.firstStep();
        if (form == Form.JSON) {
            screen.out()
                    .println(Json.answer(
                            "train",
                            new Planned(
                                    model.toString(),
                                    p.device(),
                                    threads,
                                    p.products(),
                                    p.precision(),
                                    p.fp8Linears(),
                                    kept(p),
                                    config.seed(),
                                    p.trainedElements(),
                                    p.frozenElements(),
                                    p.lastingBytes(),
                                    p.temporaryBytes(),
                                    data,
                                    folder.toString(),
                                    first,
                                    notes(p),
                                    p.states().map(PlannedStates::of).orElse(null),
                                    planned.shards().orElse(null),
                                    planned.stages().orElse(null),
                                    planned.shortage().orElse(null))));
        } else {
            Table table = table(p, first);
            planned.shards().ifPresent(s -> shardRows(s, table));
            planned.stages().ifPresent(s -> stageRows(s, table));
            planned.shortage()
                    .ifPresent(s -> table.row(
                                    "memory",
                                    Table.cell(
                                            Quantity.bytes(s.neededBytes()) + " at least; this machine has "
                                                    + Quantity.bytes(s.limitBytes()),
                                            Tone.BAD))
                            .row("", s.fix()));
            screen.out().print(table.text(0));
        }
    }

    @Override
    public void runStarted(RunStart start, RunControl runControl) throws IOException {
        firstStep = start.firstStep();
        hasCheckpoint = firstStep > 1;
        lastStep = start.lastStep();
        if (firstStep > 1) {
            ema.addEarlier(start.folder(), firstStep);
        }
        if (style == ProgressStyle.BAR || style == ProgressStyle.PLAIN) {
            screen.err()
                    .print(screen.errStyle()
                            .page(() -> table(start.plan(), firstStep).text(0)));
        }
        startNanos = System.nanoTime();
        stepNanos = startNanos;
    }

    @Override
    public void afterStep(StepReport r) {
        memoryBytes = Math.max(memoryBytes, r.memoryBytes());
        ema.add(r.loss());
        r.ranks().ifPresent(ranks -> add(r.step(), ranks));
        long now = System.nanoTime();
        pace.add((now - stepNanos) / 1e9);
        stepNanos = now;
        if (style == ProgressStyle.NONE) {
            return;
        }
        OptionalDouble perStep = pace.secondsPerStep();
        OptionalDouble eta = perStep.isPresent()
                ? OptionalDouble.of(perStep.getAsDouble() * (lastStep - r.step()))
                : OptionalDouble.empty();
        boolean edge = r.step() == firstStep || r.step() == lastStep;
        if (edge ? style != ProgressStyle.BAR : isDue(r.step(), now)) {
            shownNanos = now;
            live.above(style == ProgressStyle.JSON ? Json.line(fields(r, eta)) : line(r, eta, ""));
        }
        if (style == ProgressStyle.BAR && (edge || now - liveNanos >= LIVE_EVERY_NANOS)) {
            liveNanos = now;
            live.show(line(r, eta, bar(r.step())));
            if (r.step() == lastStep) {
                live.end(); // it stays, above the last evaluation and checkpoint
            }
        }
    }

    private boolean isDue(long step, long now) {
        if (lines.isPresent()) {
            return lines.get().isDue(step, now - shownNanos);
        }
        long shortest = style == ProgressStyle.JSON ? JSON_EVERY_NANOS : PLAIN_EVERY_NANOS;
        return style != ProgressStyle.BAR && now - shownNanos >= LogCadence.growing(now - startNanos, shortest);
    }

    private Map<String, Object> fields(StepReport r, OptionalDouble eta) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("step", r.step());
        fields.put("steps", config.steps());
        fields.put("loss", r.loss());
        r.lossParts().forEach((part, loss) -> fields.put(LossValue.field(part), loss));
        fields.put("epoch", r.epoch());
        fields.put("lr", r.lr());
        fields.put("grad_norm", r.gradNorm());
        fields.put("loss_scale", r.lossScale());
        fields.put("tokens_per_second", r.tokens() / r.seconds());
        fields.put("memory_bytes", r.memoryBytes());
        if (fp8 != null) {
            fields.put("fp8_clipped", fp8.clippedShare());
            fields.put("fp8_underflowed", fp8.underflowedShare());
            fields.put("fp8_oldest_scale", fp8.oldestScale());
            fields.put("fp8_step", fp8.step());
        }
        eta.ifPresent(seconds -> fields.put("eta_seconds", seconds));
        return fields;
    }

    /** A step on one line that fits the terminal: the less important parts as far as there is room. */
    private String line(StepReport r, OptionalDouble eta, String bar) {
        int width = screen.errStyle().columns() - 1; // a terminal wraps a line that fills it
        String unit = r.tokens() == r.samples() ? "samples/s" : "tok/s";
        Map<Integer, String> parts = new TreeMap<>(); // by their place in the line
        parts.put(0, "step " + r.step() + "/" + config.steps());
        parts.put(2, String.format(Locale.ROOT, "loss %.4f", r.loss()));
        // from the most important to the least
        Map<Integer, String> more = new LinkedHashMap<>();
        if (!bar.isEmpty()) {
            more.put(1, bar);
        }
        more.put(11, "eta " + (eta.isPresent() ? clock(eta.getAsDouble()) : "--:--:--"));
        double seconds = pace.secondsPerStep().orElse(r.seconds());
        more.put(9, String.format(Locale.ROOT, "%,.0f %s", r.tokens() / seconds, unit));
        more.put(3, String.format(Locale.ROOT, "ema %.4f", ema.value()));
        more.put(5, String.format(Locale.ROOT, "lr %.1e", r.lr()));
        more.put(6, String.format(Locale.ROOT, "gnorm %.2f", r.gradNorm()));
        if (fp8 != null) {
            more.put(
                    8,
                    String.format(
                            Locale.ROOT,
                            "fp8 clip %.2f%% uflow %.2f%%",
                            100 * fp8.clippedShare(),
                            100 * fp8.underflowedShare()));
        }
        if (r.lossScale() != 1) {
            more.put(7, String.format(Locale.ROOT, "scale %.0f", r.lossScale()));
        }
        more.put(4, String.format(Locale.ROOT, "epoch %.2f", r.epoch()));
        if (r.dataSeconds() > SLOW_DATA * r.seconds()) {
            more.put(10, String.format(Locale.ROOT, "data %.0f%%", 100 * r.dataSeconds() / r.seconds()));
        }
        int used = length(parts);
        for (Map.Entry<Integer, String> part : more.entrySet()) {
            if (used + 2 + part.getValue().length() <= width) {
                parts.put(part.getKey(), part.getValue());
                used += 2 + part.getValue().length();
            }
        }
        String text = String.join("  ", parts.values());
        return text.length() <= width ? text : text.substring(0, width);
    }

    private static int length(Map<Integer, String> parts) {
        return String.join("  ", parts.values()).length();
    }

    private String bar(long step) {
        int done = (int) (BAR * step / config.steps());
        return "[" + "=".repeat(done) + (done < BAR ? ">" + " ".repeat(BAR - done - 1) : "") + "]";
    }

    private static String clock(double time) {
        long seconds = Math.round(time);
        return String.format(Locale.ROOT, "%02d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
    }

    /** Leaves the rewritten line as it is, so that something else can be printed. */
    void endLine() {
        live.end();
    }

    private void event(String line) {
        if (style != ProgressStyle.NONE && style != ProgressStyle.JSON) {
            live.above(line);
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
        live.above("step " + seen.step() + ": the " + seen.what() + " is not finite" + where
                + (seen.skipped() ? "; the step is skipped" : "; the run stops"));
    }

    @Override
    public void fp8Measured(Fp8Report report) {
        fp8 = report;
        // said even when progress is not wanted
        List<Fp8Warning> warnings = report.warnings();
        for (Fp8Warning w : warnings.subList(0, Math.min(NAMED_LAYERS, warnings.size()))) {
            live.above("step " + report.step() + ": " + w.sentence());
        }
        if (warnings.size() > NAMED_LAYERS) {
            live.above("step " + report.step() + ": and " + (warnings.size() - NAMED_LAYERS)
                    + " more tensors in FP8, see fp8_health.jsonl");
        }
    }

    @Override
    public void guardDecided(GuardReport report) {
        guard = report;
        switch (report.decision()) {
            case GuardDecision.Demoted _ -> demotions++;
            case GuardDecision.Promoted _ -> promotions++;
            case GuardDecision.RolledBack _ -> rollbacks++;
            case GuardDecision.GaveUp _ -> {}
        }
        // said even when progress is not wanted
        live.above("step " + report.decision().step() + ": guard: "
                + report.decision().sentence());
    }

    private Guard guarded(GuardReport last) {
        return new Guard(
                demotions,
                promotions,
                rollbacks,
                last.demoted(),
                last.products() - last.highPrecision(),
                last.products());
    }

    private static String text(Guard g) {
        return counted(g.demotions(), "demotion") + ", " + counted(g.promotions(), "promotion") + ", "
                + counted(g.rollbacks(), "rollback") + "; " + g.productsInFp8() + " of " + g.products()
                + " products in FP8";
    }

    @Override
    public void evaluated(EvaluationReport r) {
        bestEval = least(bestEval, r.loss());
        bestPerplexity = least(bestPerplexity, r.perplexity().orElse(Double.NaN));
        String perplexity = r.perplexity().isEmpty()
                ? ""
                : String.format(Locale.ROOT, ", perplexity %.3f", r.perplexity().getAsDouble());
        event(String.format(
                Locale.ROOT,
                "step %d: evaluation loss %.4f%s over %s samples, %.1f s",
                r.step(),
                r.loss(),
                perplexity,
                evaluated > r.samples() ? r.samples() + " of " + evaluated : String.valueOf(r.samples()),
                r.seconds()));
    }

    /** NaN is not a number to be less than. */
    private static double least(double before, double now) {
        return Double.isNaN(before) ? now : Double.isNaN(now) ? before : Math.min(before, now);
    }

    @Override
    public void checkpointWritten(CheckpointReport r) {
        hasCheckpoint = true;
        event(String.format(
                Locale.ROOT,
                "step %d: checkpoint %s, %s, %.1f s",
                r.step(),
                r.folder(),
                Quantity.bytes(r.bytes()),
                r.seconds()));
    }

    /** The block at the end. */
    void end(RunEnd end) {
        live.end();
        RunEnd.Totals t = end.totals();
        double seconds = (System.nanoTime() - startNanos) / 1e9;
        boolean goesOn = hasCheckpoint && end.step() < config.steps();
        if (form == Form.JSON) {
            screen.out()
                    .println(Json.answer(
                            "train",
                            new Answer(
                                    folder.toString(),
                                    end.reason().name().toLowerCase(Locale.ROOT),
                                    end.step(),
                                    end.message(),
                                    t.bestLoss(),
                                    t.lastLoss(),
                                    Double.isNaN(bestEval) ? null : bestEval,
                                    Double.isNaN(bestPerplexity) ? null : bestPerplexity,
                                    t.steps(),
                                    t.skipped(),
                                    seconds,
                                    t.computeSeconds(),
                                    t.dataSeconds(),
                                    t.checkpointSeconds(),
                                    t.evaluationSeconds(),
                                    memoryBytes,
                                    fp8 == null ? null : Fp8.of(fp8),
                                    guard == null ? null : guarded(guard),
                                    saturation(),
                                    goesOn ? resumeCommand() : "",
                                    hasCheckpoint ? exportCommand() : "")));
            return;
        }
        Table table = new Table()
                .row("run", folder)
                .row("ended", ended(end))
                .row("loss", String.format(Locale.ROOT, "best %.4f, last %.4f", t.bestLoss(), t.lastLoss()));
        if (!Double.isNaN(bestEval)) {
            String perplexity = Double.isNaN(bestPerplexity)
                    ? ""
                    : String.format(Locale.ROOT, ", perplexity best %.3f", bestPerplexity);
            table.row("evaluation", String.format(Locale.ROOT, "best %.4f", bestEval) + perplexity);
        }
        bestStep().ifPresent(step -> table.row("best checkpoint", "step " + step + "; octet export --step best"));
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
                .row("buffers", Quantity.bytes(memoryBytes));
        if (guard != null) {
            table.row("guard", text(guarded(guard)));
        }
        Optional.ofNullable(saturation()).ifPresent(s -> table.row("reduction", s.text()));
        Optional.of(resumeCommand()).filter(c -> goesOn).ifPresent(c -> table.row("continue with", c));
        Optional.of(exportCommand()).filter(c -> hasCheckpoint).ifPresent(c -> table.row("export with", c));
        mergeCommand(end.step()).filter(_ -> hasCheckpoint).ifPresent(c -> table.row("merge with", c));
        screen.out().print(table.text(0));
        if (fp8 != null) {
            screen.out().print(healthTable(fp8));
        }
    }

    private void add(long step, ReductionReport r) {
        saturatedCodes += r.saturated();
        reducedCodes += r.elements();
        if (worstReduction == null || r.saturatedShare() > worstReduction.saturatedShare()) {
            worstReduction = r;
            worstReductionStep = step;
        }
    }

    private @Nullable Saturation saturation() {
        return worstReduction == null
                ? null
                : new Saturation(
                        (double) saturatedCodes / Math.max(1, reducedCodes),
                        worstReductionStep,
                        worstReduction.saturatedShare(),
                        worstReduction.worst(),
                        worstReduction.worstShare());
    }

    /** The step of the best evaluation, where the run compares them. */
    private OptionalLong bestStep() {
        if (config.checkpoint().best().isEmpty() || !hasCheckpoint) {
            return OptionalLong.empty();
        }
        try {
            return OptionalLong.of(RunFolder.bestStep(folder));
        } catch (IOException | OctetException e) {
            return OptionalLong.empty(); // nothing evaluated, or the checkpoint was removed meanwhile
        }
    }

    private String ended(RunEnd end) {
        if (end.reason() == RunEnd.Reason.INTERRUPTED && end.message().isEmpty()) {
            return "at step " + end.step() + " of " + config.steps() + ", as --steps asked";
        }
        return end.reason().name().toLowerCase(Locale.ROOT).replace('_', ' ') + " at step " + end.step()
                + (end.message().isEmpty() ? "" : ": " + end.message());
    }

    private static String healthTable(Fp8Report r) {
        Table table = new Table()
                .heading("tensor", "format", "clipped", "underflowed", "amax", "scale", "scale stayed")
                .row(
                        "all",
                        "",
                        percent(r.clippedShare()),
                        percent(r.underflowedShare()),
                        "",
                        "",
                        r.oldestScale() + " steps");
        for (Fp8Tensor t : r.worst(WORST_TENSORS)) {
            table.row(
                    t.name(),
                    t.format().name(),
                    percent(t.clippedShare()),
                    percent(t.underflowedShare()),
                    String.format(Locale.ROOT, "%.3g", t.amax()),
                    String.format(Locale.ROOT, "%.3g", t.scale()),
                    t.historyLength() == 0 ? "" : t.scaleAge() + " steps");
        }
        return "FP8 at step " + r.step() + ", worst tensors first\n" + table.text(2);
    }

    private static String percent(double share) {
        return String.format(Locale.ROOT, "%.2f %%", 100 * share);
    }
}
