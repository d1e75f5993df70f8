package dev.octet.trainer;

import dev.octet.formats.OctetVersion;
import dev.octet.formats.error.DeviceLostException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.checkpoint.CodedMasters;
import dev.octet.trainer.checkpoint.ResumeCheck;
import dev.octet.trainer.checkpoint.TrainingState;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankAgreement;
import dev.octet.trainer.collective.RankReduction;
import dev.octet.trainer.config.Cadence;
import dev.octet.trainer.config.NonFinitePolicy;
import dev.octet.trainer.config.ScheduleConfig;
import dev.octet.trainer.config.Settings;
import dev.octet.trainer.config.StatesConfig;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.cut.Part;
import dev.octet.trainer.guard.GuardDecision;
import dev.octet.trainer.hook.BestCheckpoint;
import dev.octet.trainer.hook.CheckpointCadence;
import dev.octet.trainer.hook.DebugFile;
import dev.octet.trainer.hook.DivergenceStop;
import dev.octet.trainer.hook.Fp8Health;
import dev.octet.trainer.hook.Fp8Report;
import dev.octet.trainer.hook.Gradients;
import dev.octet.trainer.hook.GuardFile;
import dev.octet.trainer.hook.MetricsFile;
import dev.octet.trainer.hook.NonFinite;
import dev.octet.trainer.hook.ObservationReport;
import dev.octet.trainer.hook.RunControl;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.StepReport;
import dev.octet.trainer.hook.TensorBoard;
import dev.octet.trainer.hook.TrainingHook;
import dev.octet.trainer.hook.TransformerEngineLog;
import dev.octet.trainer.loss.LossValue;
import dev.octet.trainer.observe.DebugSettings;
import dev.octet.trainer.observe.TensorDumps;
import dev.octet.trainer.step.StepResult;
import dev.octet.trainer.step.TensorWatch;
import dev.octet.trainer.step.TrainingSession;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** One session of a run in its folder: start or resume, steps, evaluations, checkpoints, end. */
final class TrainingRun implements RunControl {
    private static final String HOOK = "hook.";
    /** Before the names of numbers in checkpoints that are the guard's. */
    static final String GUARD = "guard.";

    /** Before the names of numbers in checkpoints that are those of a rate that follows evaluations. */
    static final String RATE = "schedule.";

    private static final String REPLAY = "guard.replay";

    /** What the keys of the states' engine begin with. */
    private static final String STATES = "optimizer.states.";

    private final Trainer trainer;
    private final Collectives world;
    private final TrainingConfig config;
    private final Path folder;
    private final RunOptions options;
    private final CheckpointFolder checkpoints;
    private final Map<String, String> settings;
    private final List<TrainingHook> hooks = new ArrayList<>();
    private final AtomicReference<@Nullable Stop> stop = new AtomicReference<>();
    private final AtomicBoolean checkpointWanted = new AtomicBoolean();

    private final TensorDumps dumps;
    private final Fp8Health fp8Health;
    private final GuardedRun guarded;
    private final Optional<BestCheckpoint> best;
    private @Nullable RunSnapshot snapshot;
    private Map<String, Float> lastScales = Map.of();

    private long done;
    private long lastCheckpoint;
    private long steps;
    private long skipped;
    private double least = Double.NaN;
    private double last = Double.NaN;
    private double computeSeconds;
    private double dataSeconds;
    private double checkpointSeconds;
    private double evaluationSeconds;

    private record Stop(RunEnd.Reason reason, String message) {}

    /** A call of a hook. */
    private interface Call {
        void on(TrainingHook hook) throws IOException;
    }

    /**
     * A session that has not begun.
     *
     * @throws IOException when the decisions of a guard that the run repeats cannot be read, or data
     */
    TrainingRun(Trainer trainer, Path folder, RunOptions options) throws IOException {
        this.trainer = trainer;
        this.world = trainer.world();
        this.config = trainer.parts().config();
        this.folder = folder;
        this.options = options;
        this.checkpoints = new CheckpointFolder(folder);
        this.settings = settings(trainer);
        if (world.isFirst()) {
            hooks.add(new MetricsFile(folder.resolve(MetricsFile.NAME)));
            hooks.add(new TensorBoard(folder.resolve(TensorBoard.FOLDER), Settings.of(config)));
        }
        hooks.add(new DivergenceStop(config.divergence()));
        hooks.add(new CheckpointCadence(config.checkpoint(), trainer::epochsEndingWith));
        best = config.checkpoint().best().map(BestCheckpoint::new);
        best.ifPresent(hooks::add);
        // the first rank writes for all; of a pipeline each measures its part of the model
        long every = world.isFirst() || trainer.session().isStaged()
                ? config.fp8Health().every()
                : 0;
        fp8Health = world.isFirst()
                ? new Fp8Health(every, config.steps(), folder.resolve(Fp8Health.NAME))
                : Fp8Health.withoutFile(every, config.steps());
        if (config.precision().isFp8()) {
            hooks.add(fp8Health);
        }
        guarded = new GuardedRun(trainer, fp8Health);
        if (guarded.isOn() && world.isFirst()) {
            hooks.add(new GuardFile(folder.resolve(GuardFile.NAME)));
        }
        this.dumps = new TensorDumps(folder, world.rank());
        addDebugHooks();
        hooks.addAll(options.hooks());
    }

    private void addDebugHooks() {
        DebugSettings debug = config.debug();
        if (!world.isFirst()) {
            return; // the first rank speaks of all
        }
        if (debug.reads()) {
            hooks.add(new DebugFile(folder.resolve(DebugFile.NAME)));
        }
        if (debug.logs()) {
            hooks.add(new TransformerEngineLog(
                    folder,
                    debug.firstIteration(),
                    debug.parity(),
                    trainer.debugPlan().messages(),
                    Clock.system(ZoneId.systemDefault())));
        }
    }

    /** Settings that must not change between sessions: the configuration, and digests of the files read. */
    private static Map<String, String> settings(Trainer trainer) throws IOException {
        Map<String, String> settings = new TreeMap<>(Settings.of(trainer.parts().config()));
        trainer.parts().inputs().forEach((name, digest) -> settings.put("sha256." + name, digest));
        settings.putAll(trainer.debugChanges());
        trainer.dataDigests().forEach((name, digest) -> settings.put("sha256." + name, digest));
        Optional<Path> replay = trainer.parts().config().guard().replay();
        if (replay.isPresent()) {
            settings.put("sha256." + REPLAY, Sha256.of(replay.get()));
        }
        return settings;
    }

    /**
     * Whether a setting may change between sessions: file names whose digest is compared instead, and settings that do not affect the
     * numbers.
     */
    private boolean isFree(String key) {
        return isFile(key)
                || ((key.equals("eval_every") || key.equals("eval_delay"))
                        && trainer.measuredRate().isEmpty())
                || key.equals("eval_on_start")
                || key.equals("on_non_finite")
                || key.equals("epochs")
                || key.equals("schedule.warmup_ratio")
                || key.equals("schedule.stretch")
                || (key.startsWith("checkpoint.")
                        && (trainer.measuredRate().isEmpty() || !key.startsWith("checkpoint.best")))
                || key.startsWith("gradient_checkpointing.") // the numbers stay the same
                || key.startsWith("divergence.")
                || key.startsWith("fp8_health.")
                || key.equals(REPLAY)
                || key.equals("guard.spike.retries")
                || key.startsWith("offload.")
                || key.startsWith("distributed.")
                || (config.distributed().reshape() && isOfRanks(key))
                || key.startsWith("debug.") // what of it changes numbers is under debug_changes
                || (key.equals("steps") && !trainer.schedule().dependsOnSteps())
                || (config.schedule().stretch() && (key.equals("steps") || key.equals("schedule.warmup")));
    }

    /** Whether a setting says how many ranks there are, and how they average. */
    private static boolean isOfRanks(String key) {
        return key.equals("precision.ranks")
                || key.equals("precision.gradient_reduction")
                || key.equals("precision.compat")
                || key.startsWith("precision.auto_scale");
    }

    /** Whether a setting is the name of a file, whose digest is compared instead. */
    private static boolean isFile(String key) {
        return key.equals("data.train")
                || key.contains("data.eval")
                || key.equals("loss.distillation.teacher")
                || key.equals("adapter.from")
                || key.equals("precision.qat.scales.calibration.statistics")
                || key.equals("data.tokenizer");
    }

    /** What ranks must agree on before the first step. */
    private Map<String, String> facts(long first, long end) {
        Map<String, String> facts = new TreeMap<>(settings);
        facts.keySet().removeIf(TrainingRun::isFile);
        facts.put("octet", OctetVersion.current());
        facts.put("first step", String.valueOf(first));
        facts.put("last step", String.valueOf(end));
        trainer.session().stages().ifPresent(s -> facts.put("stages", s.text()));
        return facts;
    }

    RunEnd run() throws IOException {
        start();
        long first = done + 1;
        long end = options.maxSteps() >= config.steps() - done ? config.steps() : done + options.maxSteps();
        RankAgreement.require(world, facts(first, end));
        RankAgreement.require(
                trainer.groups().data(),
                trainer.session().shares().map(s -> Map.of("shares", s)).orElse(Map.of()));
        TrainingHook.RunStart start = new TrainingHook.RunStart(folder, first, end, trainer.plan());
        if (world.isFirst()) {
            RunManifest.write(folder, settings, options, start);
        }
        lastScales = watches(TrainingHook::watchesScales) ? scales() : Map.of();
        boolean ended = false;
        try {
            each(h -> h.runStarted(start, this));
            if (config.evalOnStart() && done == 0 && trainer.evaluates()) {
                evaluate(0); // no rate follows it, and no checkpoint is chosen by it
            }
            while (done < end && !stops()) {
                step(done + 1);
            }
            Stop why = stop.get();
            boolean good = why == null || why.reason() == RunEnd.Reason.INTERRUPTED;
            if (good && done > lastCheckpoint) {
                checkpoint();
            }
            RunEnd.Reason unfinished = done < config.steps() ? RunEnd.Reason.INTERRUPTED : RunEnd.Reason.COMPLETED;
            RunEnd how = why == null ? end(unfinished, "") : end(why.reason(), why.message());
            ended = true;
            tellEnd(how);
            return how;
        } catch (DeviceLostException e) {
            throw withCheckpoint(e);
        } finally {
            if (!ended) {
                tellEnd(end(RunEnd.Reason.FAILED, "an error ended the run"));
            }
            keep(null);
        }
    }

    /** Whether the run ends here. Where one rank was asked to, all end at the same step, with its reason. */
    private boolean stops() {
        if (world.isAlone()) {
            return stop.get() != null;
        }
        Stop own = stop.get();
        if (world.allReduce(own == null ? 0 : 1, RankReduction.MAX) == 0) {
            return false;
        }
        String said = own == null ? "" : own.reason() + " " + own.message();
        String first = world.gather(said.getBytes(StandardCharsets.UTF_8)).stream()
                .map(b -> new String(b, StandardCharsets.UTF_8))
                .filter(s -> !s.isEmpty())
                .findFirst()
                .orElseThrow();
        int end = first.indexOf(' ');
        stop.set(new Stop(RunEnd.Reason.valueOf(first.substring(0, end)), first.substring(end + 1)));
        return true;
    }

    /** Device memory is lost: the message adds the last checkpoint and how many steps are lost. */
    private DeviceLostException withCheckpoint(DeviceLostException e) {
        String left = lastCheckpoint > 0
                ? "the last checkpoint is " + checkpoints.path(lastCheckpoint) + " (step " + lastCheckpoint + "), "
                        + (done - lastCheckpoint) + " steps are lost"
                : "there was no checkpoint yet";
        return new DeviceLostException(e.what() + " at step " + (done + 1), e.where(), left + "; " + e.fix(), e);
    }

    /** Calls every hook, even after one failed: hooks have files to close. */
    private void tellEnd(RunEnd how) throws IOException {
        IOException failure = null;
        for (TrainingHook hook : hooks) {
            try {
                hook.runEnded(how);
            } catch (IOException e) {
                if (failure == null) {
                    failure = e;
                } else {
                    failure.addSuppressed(e);
                }
            }
        }
        if (failure != null) {
            throw failure;
        }
    }

    private RunEnd end(RunEnd.Reason reason, String message) {
        return new RunEnd(
                reason,
                done,
                message,
                new RunEnd.Totals(
                        steps,
                        skipped,
                        least,
                        last,
                        computeSeconds,
                        dataSeconds,
                        checkpointSeconds,
                        evaluationSeconds));
    }

    /** The first step that {@link #run} would execute, or its exception. Changes nothing. */
    long firstStep() throws IOException {
        if (!options.resume()) {
            checkpoints.requireNone();
            return 1;
        }
        try (CheckpointFile file = checkpointToGoOnFrom()) {
            requireFits(file.state());
            return file.state().step() + 1;
        }
    }

    /** Restores the checkpoint when resuming; steps can follow. */
    void start() throws IOException {
        if (!options.resume()) {
            checkpoints.requireNone();
            if (guarded.isOn()) {
                guarded.recall(Map.of());
            }
            return;
        }
        if (world.isFirst()) {
            checkpoints.sweep();
        }
        try (CheckpointFile file = checkpointToGoOnFrom()) {
            restore(file.state());
        } catch (NumberFormatException e) {
            throw new MalformedModelException(
                    "the checkpoint is damaged: not a number: " + e.getMessage(),
                    folder + ", checkpoint.json: numbers",
                    "resume from another checkpoint with --from-step",
                    e);
        }
    }

    private CheckpointFile checkpointToGoOnFrom() throws IOException {
        return options.fromStep() == 0 ? checkpoints.openNewest() : checkpoints.open(options.fromStep());
    }

    private void requireFits(TrainingState state) {
        String where = checkpoints.path(state.step()).toString();
        requireSameRanks(state, where);
        requireSameStages(state, where);
        requireSameRates(state);
        requireSameEngine(state, where);
        ResumeCheck.require(
                state.settings(),
                settings,
                key -> isFree(key) || key.startsWith(STATES) || (key.equals("steps") && inWarmup(state)),
                where);
        if (state.step() >= config.steps()) {
            throw new InvalidOptionException(
                    "all " + config.steps() + " steps are done",
                    where,
                    "raise steps, as with --set steps=" + 2 * config.steps() + ", or start a new run");
        }
    }

    /** Rejects a checkpoint of another number of ranks, unless the configuration takes it: averages then are added in another order. */
    private void requireSameRanks(TrainingState state, String where) {
        String key = "precision.ranks";
        String before = state.settings().getOrDefault(key, "1");
        String now = settings.getOrDefault(key, "1");
        if (!before.equals(now) && !isFree(key)) {
            throw new InvalidOptionException(
                    "the run cannot resume: it was on " + before + (before.equals("1") ? " rank" : " ranks")
                            + " and is on " + now + ", which add gradients in another order",
                    where,
                    "accept this with --set distributed.reshape=true, or start " + before
                            + " processes; one process plays them with --set precision.ranks=" + before);
        }
        String tensor = "distributed.tensor";
        String parts = state.settings().getOrDefault(tensor, "1");
        String own = settings.getOrDefault(tensor, "1");
        if (!parts.equals(own) && !config.distributed().reshape()) {
            throw new InvalidOptionException(
                    "the run cannot resume: its layers were shared out to " + parts
                            + (parts.equals("1") ? " rank" : " ranks") + " and are to " + own
                            + ", which add results in another order",
                    where,
                    "accept this with --set distributed.reshape=true, or set distributed.tensor=" + parts);
        }
    }

    /** Rejects a checkpoint of another number of stages, unless the configuration takes it: gradients of tied parameters then are added in another order. */
    private void requireSameStages(TrainingState state, String where) {
        String key = "distributed.pipeline";
        String before = state.settings().getOrDefault(key, "1");
        String now = settings.getOrDefault(key, "1");
        if (!before.equals(now) && !config.distributed().reshape()) {
            throw new InvalidOptionException(
                    "the run cannot resume: " + key + " was " + before + " and is " + now
                            + ", and stages add the gradients of tied parameters in another order",
                    where,
                    "accept this with --set distributed.reshape=true, or set " + key + ": " + before);
        }
    }

    /** Rejects a checkpoint whose states are kept otherwise, unless the configuration asks for their conversion. */
    private void requireSameEngine(TrainingState state, String where) {
        StatesConfig before = StatesConfig.of(state.settings());
        StatesConfig now = config.optimizer().states();
        if (!now.convert() && !before.engine().equals(now.engine())) {
            throw new InvalidOptionException(
                    "the run cannot resume: its states are kept by the engine " + before.text() + ", not " + now.text(),
                    where,
                    "convert them with --set optimizer.states.convert=true, or restore the keys of optimizer.states");
        }
    }

    /** Whether the checkpoint lies within the warm-up, during which the learning rate does not depend on the number of steps. */
    private boolean inWarmup(TrainingState state) {
        return state.step() <= config.schedule().warmup();
    }

    /** Explains another number of steps where it alone keeps the run from going on: a decaying schedule depends on it. */
    private void requireSameRates(TrainingState state) {
        String before = state.settings().getOrDefault("steps", "");
        boolean changes = !before.equals(String.valueOf(config.steps())) && before.matches("\\d{1,18}");
        if (!changes || isFree("steps") || inWarmup(state)) {
            return;
        }
        ScheduleConfig schedule = config.schedule();
        double next = schedule.schedule(config.optimizer().lr(), Long.parseLong(before))
                .rate(state.step());
        throw new InvalidOptionException(
                String.format(
                        Locale.ROOT,
                        "the run cannot resume: steps was %s and is %d, and with a %s schedule the learning rate"
                                + " depends on it: step %d would have %.2g instead of %.2g",
                        before,
                        config.steps(),
                        schedule.type().key(),
                        state.step() + 1,
                        trainer.learningRate(state.step() + 1),
                        next),
                checkpoints.path(state.step()).toString(),
                "accept this with --set schedule.stretch=true, or restore steps: " + before);
    }

    private void restore(TrainingState state) throws IOException {
        requireFits(state);
        if (trainer.sharesStates()) {
            trainer.prepare();
        }
        Map<String, Tensor> own = new TreeMap<>(state.state());
        own.keySet().removeIf(RunSnapshot::holds);
        if (guarded.isOn()) {
            Map<String, String> numbers = withPrefix(GUARD, state.numbers());
            guarded.recall(numbers);
            if (RunSnapshot.isIn(state.numbers())) {
                keep(RunSnapshot.from(trainer, state));
            }
        }
        trainer.session().restore(state.parameters(), trainer.converted(own, state), ScaleText.read(state.numbers()));
        trainer.measuredRate().ifPresent(m -> m.recall(withPrefix(RATE, state.numbers())));
        for (TrainingHook hook : hooks) {
            Map<String, String> remembered = withPrefix(prefix(hook), state.numbers());
            if (!remembered.isEmpty()) {
                hook.recall(remembered);
            }
        }
        done = state.step();
        lastCheckpoint = done;
    }

    /** The numbers under a prefix, without it. */
    static Map<String, String> withPrefix(String prefix, Map<String, String> numbers) {
        Map<String, String> own = new TreeMap<>();
        numbers.forEach((key, value) -> {
            if (key.startsWith(prefix)) {
                own.put(key.substring(prefix.length()), value);
            }
        });
        return own;
    }

    /** Keeps a snapshot in place of the one before. */
    private void keep(@Nullable RunSnapshot next) {
        RunSnapshot before = snapshot;
        snapshot = next;
        if (before != null) {
            before.close();
        }
    }

    private static String prefix(TrainingHook hook) {
        return HOOK + hook.getClass().getSimpleName() + ".";
    }

    private void step(long step) throws IOException {
        each(h -> h.beforeStep(step));
        guarded.beforeStep(step);
        long from = System.nanoTime();
        double lr = trainer.learningRate(step);
        boolean measuresFp8 = config.precision().isFp8() && onAll(watches(h -> h.watchesFp8(step)));
        Optional<TensorWatch> tensors = trainer.watchTensors(step, dumps);
        Trainer.Done d = trainer.step(step, gradientWatcher(step), measuresFp8);
        double seconds = (System.nanoTime() - from) / 1e9;
        StepResult r = d.result();
        done = step;
        steps++;
        skipped += r.skipped() ? 1 : 0;
        last = r.loss();
        least = Double.isNaN(least) ? r.loss() : Math.min(least, Double.isNaN(r.loss()) ? least : r.loss());
        dataSeconds += d.dataSeconds();
        computeSeconds += seconds - d.dataSeconds();
        if (r.skipped()) {
            nonFinite(step, r);
        }
        if (r.lossScale() != r.nextLossScale()) {
            each(h -> h.lossScaleChanged(step, r.lossScale(), r.nextLossScale()));
        }
        Map<String, Float> scalesBefore = lastScales;
        scales(step);
        if (measuresFp8) {
            Fp8Report measured = fp8Health.report(step, r.fp8());
            each(h -> h.fp8Measured(measured));
        }
        if (tensors.isPresent()) {
            ObservationReport observed = new ObservationReport(
                    step, config.debug().iteration(step), tensors.get().reports());
            each(h -> h.tensorsObserved(observed));
        }
        StepReport report = new StepReport(
                step,
                r.loss(),
                r.lossParts(),
                lr,
                r.gradNorm(),
                r.skipped(),
                r.lossScale(),
                d.samples(),
                d.tokens(),
                trainer.epoch(step),
                seconds,
                d.dataSeconds(),
                trainer.session().residentBytes() + trainer.session().temporaryBytes(),
                r.ranks());
        each(h -> h.afterStep(report));
        if (!guarded.isOn() || guard(step, r, scalesBefore)) {
            evaluateAndKeep(step);
        }
    }

    /** Applies what the guard decides; returns whether the run stays where it is. */
    private boolean guard(long step, StepResult r, Map<String, Float> scalesBefore) throws IOException {
        List<GuardDecision> decisions = guarded.afterStep(step, scalesBefore, lastScales, r.skipped());
        if (!decisions.isEmpty()) {
            lastScales = scales();
            tell(decisions);
        }
        boolean overflowed = r.skipped()
                && config.precision().scaling().isDynamic()
                && !r.nonFinite().equals("loss");
        Optional<GuardDecision.Spike> spike = guarded.guard().judge(step, r.loss(), r.gradNorm(), overflowed);
        RunSnapshot good = snapshot;
        if (spike.isEmpty() || good == null) {
            return true;
        }
        Optional<GuardDecision.GaveUp> end = guarded.guard().giveUp(spike.get(), good.step());
        if (end.isPresent()) {
            tell(List.of(end.get()));
            stop(RunEnd.Reason.DIVERGED, end.get().sentence());
        } else {
            rollBack(spike.get(), good);
        }
        return false;
    }

    private void tell(List<GuardDecision> decisions) throws IOException {
        for (GuardDecision decision : decisions) {
            each(h -> h.guardDecided(guarded.report(decision)));
        }
    }

    /**
     * Goes back to a snapshot. The checkpoint of its step is written before those of later steps are removed, so that a run killed in between goes
     * back again.
     */
    private void rollBack(GuardDecision.Spike spike, RunSnapshot good) throws IOException {
        List<GuardDecision> decisions = guarded.rollBack(spike, good.step(), withPrefix(GUARD, good.numbers()));
        trainer.session().restore(good.parameters(), good.state(), ScaleText.read(good.numbers()));
        trainer.measuredRate().ifPresent(m -> m.recall(withPrefix(RATE, good.numbers())));
        hooks.forEach(h -> h.recall(withPrefix(prefix(h), good.numbers())));
        done = good.step();
        lastScales = watches(TrainingHook::watchesScales) ? scales() : Map.of();
        good.replaceNumbers(GUARD, guarded.guard().remembered());
        each(h -> h.rolledBack(done));
        tell(decisions);
        checkpointWanted.set(false);
        checkpoint();
        if (world.isFirst()) {
            checkpoints.removeAfter(done);
        }
    }

    private void evaluateAndKeep(long step) throws IOException {
        boolean due = config.evalEvery().isDue(step, trainer.epochsEndingWith(step)) && waited(step);
        if (trainer.evaluates() && (due || step == config.steps())) {
            trainer.evaluated(evaluate(step));
        }
        if (guarded.isOn() && guarded.guard().wantsSnapshot(step, snapshot != null)) {
            guarded.guard().snapshotTaken();
            keep(RunSnapshot.of(trainer, step, numbers()));
        }
        if (stop.get() == null && checkpointWanted.getAndSet(false)) {
            checkpoint();
        }
    }

    /** Whether a step lies behind {@code eval_delay}: steps, or whole epochs. */
    private boolean waited(long step) {
        double past = config.evalEvery().unit() == Cadence.Unit.EPOCH ? Math.floor(trainer.epoch(step)) : (double) step;
        return past >= config.evalDelay().orElse(0);
    }

    private TrainingHook.EvaluationReport evaluate(long step) throws IOException {
        long from = System.nanoTime();
        LossValue loss = trainer.evaluate();
        double seconds = (System.nanoTime() - from) / 1e9;
        evaluationSeconds += seconds;
        TrainingHook.EvaluationReport report = new TrainingHook.EvaluationReport(
                step,
                loss.total(),
                loss.parts(),
                trainer.perplexity(loss),
                trainer.evaluationSamples(),
                loss.positions(),
                seconds);
        each(h -> h.evaluated(report));
        return report;
    }

    /** Numbers of the run, as a checkpoint has them. */
    private Map<String, String> numbers() {
        Map<String, String> numbers =
                new TreeMap<>(ScaleText.of(trainer.session().scale()));
        for (TrainingHook hook : hooks) {
            hook.remembered().forEach((key, value) -> numbers.put(prefix(hook) + key, value));
        }
        guarded.guard().remembered().forEach((key, value) -> numbers.put(GUARD + key, value));
        trainer.measuredRate().ifPresent(m -> m.remembered().forEach((key, v) -> numbers.put(RATE + key, v)));
        return numbers;
    }

    private void nonFinite(long step, StepResult r) throws IOException {
        // dynamic loss scaling overflows on purpose while it looks for the right scale
        boolean expected =
                config.precision().scaling().isDynamic() && !r.nonFinite().equals("loss");
        boolean stops = config.onNonFinite() == NonFinitePolicy.STOP && !expected;
        NonFinite seen = new NonFinite(step, r.nonFinite(), r.where(), !stops);
        each(h -> h.nonFiniteSeen(seen));
        if (stops) {
            String where = r.where().isEmpty() ? "" : ", first in " + r.where();
            stop(RunEnd.Reason.NON_FINITE, "the " + r.nonFinite() + " is not finite" + where);
        }
    }

    /** What a rank wants that all must do together: where stages compute the model, each measures a part of it. */
    private boolean onAll(boolean wanted) {
        boolean together = trainer.session().isStaged() && config.precision().isFp8();
        return together ? world.allReduce(wanted ? 1 : 0, RankReduction.MAX) > 0 : wanted;
    }

    private boolean watches(Predicate<TrainingHook> what) {
        return hooks.stream().anyMatch(what);
    }

    /** Dequantisation multipliers of the whole model. */
    private Map<String, Float> scales() {
        return ofAllStages(trainer.session().scales());
    }

    /** Scales or amaxes of all stages: in FP8, where all ranks watch them, they tell each other; otherwise there are none. */
    private Map<String, Float> ofAllStages(Map<String, Float> own) {
        return config.precision().isFp8() ? trainer.session().ofAllStages(own) : own;
    }

    /** Reports amaxes and changed scales (dequantisation multipliers) to hooks; reads from the device only what some hook watches. */
    private void scales(long step) throws IOException {
        if (onAll(watches(TrainingHook::watchesAmaxes))) {
            Map<String, Float> amaxes = ofAllStages(trainer.session().amaxes());
            for (Map.Entry<String, Float> amax : amaxes.entrySet()) {
                each(h -> h.amaxRecorded(step, amax.getKey(), amax.getValue()));
            }
        }
        if (watches(TrainingHook::watchesScales)) {
            Map<String, Float> now = scales();
            for (Map.Entry<String, Float> scale : now.entrySet()) {
                float before = lastScales.getOrDefault(scale.getKey(), 1f);
                float after = scale.getValue();
                if (before != after) {
                    each(h -> h.scaleUpdated(step, scale.getKey(), before, after));
                }
            }
            lastScales = now;
        }
    }

    private @Nullable Consumer<Gradients> gradientWatcher(long step) {
        List<TrainingHook> watching =
                hooks.stream().filter(TrainingHook::watchesGradients).toList();
        return watching.isEmpty()
                ? null
                : gradients -> {
                    try {
                        for (TrainingHook hook : watching) {
                            hook.afterBackward(step, gradients);
                        }
                    } catch (IOException e) {
                        throw new UncheckedIOException(e);
                    }
                };
    }

    private void checkpoint() throws IOException {
        if (!world.isFirst() && !trainer.sharesStates()) {
            lastCheckpoint = done;
            return; // all ranks have the same weights and state
        }
        long from = System.nanoTime();
        Path written;
        try (Arena arena = Arena.ofConfined()) {
            Map<String, String> numbers = numbers();
            Set<String> elsewhere = trainer.session().writtenElsewhere();
            Map<String, Tensor> own = new TreeMap<>(trainer.session().ownStateViews(arena));
            own.keySet().removeAll(elsewhere);
            boolean adapts = trainer.adapts();
            boolean sharesParameters = (trainer.session().cutsWeights() || trainer.cutsModel()) && !adapts;
            Map<String, Part> parts = trainer.session().parts();
            RunSnapshot good = snapshot;
            if (good != null) {
                Set<String> weights =
                        sharesParameters ? weights(elsewhere, arena).keySet() : null;
                good.addTo(done, numbers, own, share(good, own.keySet(), weights));
                parts = good.with(parts);
            }
            Map<String, Tensor> adapter = adapts ? trainer.keptParameters(arena) : Map.of();
            CodedMasters coded = adapts ? CodedMasters.NONE : trainer.session().codedMasters(arena, elsewhere);
            if (trainer.sharesStates()) {
                written = checkpoints.writeShared(
                        world.isFirst() || sharesParameters
                                ? state(numbers, own, adapts ? adapter : weights(elsewhere, arena), arena)
                                : stateAlone(own),
                        keeping(),
                        coded,
                        trainer.session()::settle,
                        new CheckpointFolder.Sharers(world, sharesParameters, parts));
            } else {
                written = checkpoints.write(
                        state(numbers, own, adapts ? adapter : weights(elsewhere, arena), arena),
                        keeping(),
                        coded,
                        trainer.session()::settle);
            }
        }
        lastCheckpoint = done;
        if (!world.isFirst()) {
            return; // the first rank speaks
        }
        double seconds = (System.nanoTime() - from) / 1e9;
        checkpointSeconds += seconds;
        TrainingHook.CheckpointReport report =
                new TrainingHook.CheckpointReport(done, written, bytes(written), seconds);
        each(h -> h.checkpointWritten(report));
    }

    /**
     * What of a snapshot this rank writes into a checkpoint: what it writes of the run, too.
     *
     * @param states that it writes
     * @param weights that it writes; null where the first rank writes all
     */
    private RunSnapshot.Share share(RunSnapshot of, Set<String> states, @Nullable Set<String> weights) {
        if (!trainer.sharesStates()) {
            return of.whole();
        }
        if (weights == null) {
            return new RunSnapshot.Share(world.isFirst() ? of.parameters().keySet() : Set.of(), states);
        }
        Set<String> parameters = new HashSet<>(of.parameters().keySet());
        parameters.removeIf(p -> !weights.contains(p) && !states.contains(TrainingSession.codesName(p)));
        return new RunSnapshot.Share(parameters, states);
    }

    /** @param elsewhere names of parameters that other ranks write */
    private Map<String, Tensor> weights(Set<String> elsewhere, Arena arena) {
        return trainer.session().ownParameterViews(arena, elsewhere);
    }

    private TrainingState state(
            Map<String, String> numbers, Map<String, Tensor> own, Map<String, Tensor> kept, Arena arena) {
        return new TrainingState(
                done, trainer.microBatches(done), settings, numbers, kept, own, trainer.keptAdapter(kept, arena));
    }

    /** What a rank other than the first adds to a checkpoint: the rest is the same on all. */
    private TrainingState stateAlone(Map<String, Tensor> own) {
        return new TrainingState(done, trainer.microBatches(done), Map.of(), Map.of(), Map.of(), own);
    }

    private CheckpointFolder.Kept keeping() {
        return new CheckpointFolder.Kept(
                config.checkpoint().keep(), best.map(BestCheckpoint::step).orElse(OptionalLong.empty()));
    }

    private static long bytes(Path folder) throws IOException {
        long sum = 0;
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.toList()) {
                sum += Files.size(file);
            }
        }
        return sum;
    }

    private void each(Call call) throws IOException {
        for (TrainingHook hook : hooks) {
            call.on(hook);
        }
    }

    @Override
    public void stop(RunEnd.Reason reason, String message) {
        stop.compareAndSet(null, new Stop(reason, message));
    }

    @Override
    public void requestCheckpoint() {
        checkpointWanted.set(true);
    }
}
