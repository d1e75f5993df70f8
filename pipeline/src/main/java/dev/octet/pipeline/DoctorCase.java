package dev.octet.pipeline;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.formats.OctetVersion;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.AtomicFile;
import dev.octet.formats.file.Sha256;
import dev.octet.pipeline.doctor.Advice;
import dev.octet.pipeline.doctor.BadFit;
import dev.octet.pipeline.doctor.Course;
import dev.octet.pipeline.doctor.Cure;
import dev.octet.pipeline.doctor.Spike;
import dev.octet.pipeline.doctor.Symptom;
import dev.octet.pipeline.doctor.TaskScores;
import dev.octet.pipeline.doctor.Triage;
import dev.octet.pipeline.run.OpenedModel;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.pipeline.run.RunSummary;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.checkpoint.TrainingState;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.hook.MetricsFile;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.replay.Continuation;
import dev.octet.trainer.replay.Culprit;
import dev.octet.trainer.replay.Deviation;
import dev.octet.trainer.replay.Diagnosis;
import dev.octet.trainer.replay.Evidence;
import dev.octet.trainer.replay.ExaminationOptions;
import dev.octet.trainer.replay.Excerpt;
import dev.octet.trainer.replay.Experiment;
import dev.octet.trainer.replay.LayerProduct;
import dev.octet.trainer.replay.Replay;
import dev.octet.trainer.replay.ReplayLog;
import dev.octet.trainer.replay.Verdict;
import dev.octet.trainer.yaml.Section;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * One run or model under examination: curves first, then what was exported, then replays.
 *
 * <p>Not thread-safe.
 */
final class DoctorCase implements AutoCloseable {
    /** Steps of the base type that are replayed where there is no baseline, and by which a continuation has to come back. */
    private static final int STRETCH = 20;

    /** No stretch is longer, however far the checkpoint before a spike lies. */
    private static final int LONGEST_STRETCH = 100;

    /** No examination replays more steps, however far the checkpoint before a spike lies. */
    private static final int LONGEST_REPLAY = 24;

    private static final int SHOWN = 5;

    private final Doctor.Request request;
    private final Job job;
    private final Path model;
    private final Section text;
    private final TrainingConfig config;
    private final @Nullable Run run;
    private final Stopwatch watch = new Stopwatch();

    private final List<Doctor.Curve> curves = new ArrayList<>();
    private final List<String> advice = new ArrayList<>();
    private final List<String> written = new ArrayList<>();
    private final Set<Path> begun = new HashSet<>();
    private @Nullable TrainingJob training;
    private @Nullable Triage triage;
    private Doctor.@Nullable Restore restore;
    private Doctor.@Nullable Replays replays;
    private @Nullable TaskScores tasks;
    private Doctor.@Nullable ExportFindings exported;
    private @Nullable Cure cure;
    private boolean complete = true;
    private int replaysRun;

    /**
     * What is only of a run.
     *
     * @param steps of its checkpoints, ascending
     */
    private record Run(Doctor.Subject.Run subject, Course course, List<Long> steps) {
        Path folder() {
            return subject.folder();
        }

        /** The last checkpoint of a step before this one, or 0. */
        long before(long step) {
            return steps.stream().filter(s -> s < step).reduce(0L, (_, s) -> s);
        }

        /** The first checkpoint of this step or a later one; else the last there is, or 0. */
        long from(long step) {
            return steps.stream().filter(s -> s >= step).findFirst().orElseGet(() -> before(Long.MAX_VALUE));
        }
    }

    private DoctorCase(
            Doctor.Request request, Job job, Path model, Section text, TrainingConfig config, @Nullable Run run) {
        this.request = request;
        this.job = job;
        this.model = model;
        this.text = text;
        this.config = config;
        this.run = run;
    }

    /** Opens what is examined, and refuses what cannot be. */
    static DoctorCase open(Doctor.Request request, Job job) throws IOException {
        return switch (request.subject()) {
            case Doctor.Subject.Run subject -> ofRun(request, subject, job);
            case Doctor.Subject.Untrained subject -> {
                Section text = YamlFile.read(subject.config()).with(subject.settings(), "--data");
                TrainingConfig config = TrainingConfig.of(text, RunFolder.parent(subject.config()));
                requireFp8(config, subject.config(), "choose precision: {mode: fp8}");
                yield new DoctorCase(request, job, subject.model(), text, config, null);
            }
        };
    }

    private static DoctorCase ofRun(Doctor.Request request, Doctor.Subject.Run subject, Job job) throws IOException {
        RunFolder run = RunFolder.open(subject.folder(), subject.model());
        requireFp8(run.config(), run.folder(), "give a run in FP8; this one can be its --baseline");
        Course course = Course.read(run.folder());
        Path config = RunFolder.config(run.folder());
        if (course.size() < Triage.LEAST_STEPS) {
            throw new InvalidDataException(
                    "the run has " + course.size() + " steps, and a curve says nothing before " + Triage.LEAST_STEPS,
                    run.folder().resolve(MetricsFile.NAME).toString(),
                    "train on with octet train --resume, or examine the model before its first step: octet doctor MODEL"
                            + " --config " + config);
        }
        List<Long> steps = new CheckpointFolder(run.folder()).steps();
        if (subject.step() != 0 && !steps.contains(subject.step())) {
            throw new InvalidDataException(
                    "the run has no checkpoint of step " + subject.step(),
                    run.folder().resolve(CheckpointFolder.NAME).toString(),
                    steps.isEmpty() ? "leave out --step" : "checkpoints are of steps " + steps);
        }
        Run of = new Run(subject, course, steps);
        return new DoctorCase(request, job, run.model(), YamlFile.read(config), run.config(), of);
    }

    private static void requireFp8(TrainingConfig config, Path where, String fix) {
        if (!config.precision().isFp8()) {
            throw new InvalidDataException(
                    "nothing is computed in FP8: precision.mode is "
                            + config.precision().mode(),
                    where.toString(),
                    fix);
        }
    }

    /** Examines it. */
    Doctor.Result result() throws IOException {
        Run of = run;
        if (of == null) {
            return replayed(Symptom.NONE, 0, true);
        }
        curves.add(new Doctor.Curve("run", of.course()));
        if (request.tasks().isPresent()) {
            tasks = TaskScores.read(request.tasks().get());
        }
        if (request.baseline().isPresent()) {
            compare(of, "baseline", baseline(of, request.baseline().get()));
        }
        Symptom symptom = symptom();
        boolean tasksSuspect = tasks != null && tasks.blamesExport() && symptom.fault() != Symptom.Fault.PRECISION;
        if (request.exported().isPresent() || tasksSuspect) {
            Optional<Doctor.Result> downstream = downstream(of);
            if (downstream.isPresent()) {
                return downstream.get();
            }
        }
        if (triage == null) {
            stretch(of);
            symptom = symptom();
        }
        return switch (symptom.fault()) {
            case TRAINING -> onTraining(of, symptom);
            case NONE, EXPORT, PRECISION -> onPrecision(of, symptom);
        };
    }

    private Symptom symptom() {
        return triage == null ? Symptom.NONE : triage.symptom();
    }

    private void compare(Run of, String name, Course with) {
        curves.add(new Doctor.Curve(name, with));
        triage = Triage.of(of.course(), with);
    }

    /** The curve of a run on the same batches. */
    private static Course baseline(Run of, Path folder) throws IOException {
        RunFolder other = RunFolder.open(folder, Optional.empty());
        if (other.config().precision().isFp8()) {
            throw new InvalidDataException(
                    "the baseline computes in FP8 itself",
                    folder.toString(),
                    "give a run of the same configuration with precision: {mode: bf16}");
        }
        List<String> differing = RunFolder.differences(of.folder(), folder);
        if (!differing.isEmpty()) {
            throw new InvalidDataException(
                    "the baseline is another run: "
                            + differing.stream().limit(SHOWN).collect(Collectors.joining("; ")),
                    folder.toString(),
                    "give a run of the same data and configuration, with another precision alone");
        }
        Course theirs = Course.read(folder);
        int shared = of.course().sharedWith(theirs).size();
        if (shared < Triage.LEAST_STEPS) {
            throw new InvalidDataException(
                    "the baseline has " + shared + " steps in common with the run, and at least " + Triage.LEAST_STEPS
                            + " are needed",
                    folder.toString(),
                    "train the baseline further");
        }
        return theirs;
    }

    // replays

    private TrainingJob training() throws IOException {
        TrainingJob opened = training;
        if (opened == null) {
            opened = TrainingJob.open(model, config, request.device(), job);
            training = opened;
            if (run != null) {
                requireSameData(run.folder(), opened);
            }
        }
        return opened;
    }

    private static void requireSameData(Path folder, TrainingJob opened) throws IOException {
        String found = opened.train().digest();
        Optional<String> wanted = RunFolder.setting(folder, "sha256.data.train");
        if (wanted.isPresent() && !wanted.get().equals(found)) {
            throw new InvalidDataException(
                    "the training data has changed since the run: SHA-256 " + found + ", the run read " + wanted.get(),
                    opened.config().data().train().toString(),
                    "restore the file: replays need the batches that the run saw");
        }
    }

    /**
     * Finished replays of some steps. They belong to these contents of model, configuration, data and checkpoint.
     *
     * @param step before the first
     * @param steps how many
     */
    private ReplayLog log(long step, int steps) throws IOException {
        if (request.output().isEmpty()) {
            return ReplayLog.inMemory();
        }
        Path folder = request.output().get().resolve(Doctor.REPLAYS);
        Files.createDirectories(folder);
        Path file = folder.resolve("step-" + step + "-" + steps + ".jsonl");
        if (job.overwrite() && begun.add(file)) {
            Files.deleteIfExists(file);
        }
        String identity = Sha256.of(
                OctetVersion.current(),
                OpenedModel.digest(model),
                text.yaml(),
                training().train().digest(),
                request.device().text(),
                contents(step));
        return ReplayLog.file(file, identity);
    }

    /** The state after a step; null before the first. The caller closes the file. */
    private @Nullable CheckpointFile checkpoint(long step) throws IOException {
        return step == 0 || run == null ? null : new CheckpointFolder(run.folder()).open(step);
    }

    /** A digest of a checkpoint; empty before the first step. */
    private String contents(long step) throws IOException {
        if (step == 0 || run == null) {
            return "";
        }
        Path sums = new CheckpointFolder(run.folder()).path(step).resolve("SHA256SUMS");
        return Files.isRegularFile(sums) ? Sha256.of(sums) : "";
    }

    private boolean isSpent() {
        return replaysRun >= request.budget().replays()
                || watch.seconds() > request.budget().time().toSeconds();
    }

    /** The losses of the base type from a step on; empty when the budget is spent. */
    private Optional<Course> continued(long from, int steps) throws IOException {
        ReplayLog log = log(from, steps);
        String key = "continued in " + policy().base().name();
        Optional<Replay> known = log.find(key);
        if (known.isEmpty()) {
            if (isSpent()) {
                complete = false;
                return Optional.empty();
            }
            job.listener()
                    .progress(
                            "continuing step " + from + " in " + policy().base().name(), 0, 1, "replays");
            try (CheckpointFile file = checkpoint(from);
                    Arena arena = Arena.ofShared()) {
                TrainingState state = file == null ? null : file.state();
                Excerpt excerpt = training().trainer().excerpt(state, steps, arena);
                Replay made = Continuation.of(key, excerpt, policy().base());
                log.add(made);
                replaysRun++;
                known = Optional.of(made);
            }
        }
        return Optional.of(Course.of(
                from + 1, known.get().losses().stream().mapToDouble(d -> d).toArray()));
    }

    private Fp8Policy policy() {
        return (Fp8Policy) config.precision().policy();
    }

    /** Without a baseline: the base type from before the first trouble on, or from the beginning. */
    private void stretch(Run of) throws IOException {
        Optional<Spike> suspect = Triage.suspect(of.course());
        long last = of.course().points().getLast().step();
        long from = 0;
        long to = STRETCH;
        if (suspect.isPresent()) {
            from = of.before(Math.max(1, suspect.get().first() - Triage.LEAST_STEPS / 2));
            to = suspect.get().last() + Triage.LEAST_STEPS;
        }
        long end = Math.min(Math.min(to, last), from + LONGEST_STRETCH);
        from = Math.max(0, Math.min(from, of.before(end - Triage.LEAST_STEPS + 1)));
        if (suspect.isPresent() && end < suspect.get().first()) {
            advice.add("step " + suspect.get().first() + " looks ill and is more than " + LONGEST_STRETCH
                    + " steps after the last checkpoint before it: give a run in BF16 with --baseline");
        }
        Optional<Course> base = continued(from, (int) (end - from));
        if (base.isPresent()) {
            compare(of, policy().base().name() + " from step " + (from + 1), base.get());
            if (of.course().neverFinite() && base.get().neverFinite()) {
                throw new InvalidDataException(
                        "the loss is not finite from the first step on, in "
                                + policy().base().name() + " neither",
                        of.folder().resolve(MetricsFile.NAME).toString(),
                        "it is not FP8: lower optimizer.lr, look at the data, and let on_non_finite: stop name the"
                                + " first operator");
            }
        }
    }

    /** Numbers that a run trains, as its manifest has them; 0 when it says nothing. */
    private static long trained(Run of) throws IOException {
        JsonNode sessions = RunSummary.manifest(of.folder()).path("sessions");
        return sessions.path(sessions.size() - 1).path("trained_parameters").asLong();
    }

    /** Class (a). */
    private Doctor.Result onTraining(Run of, Symptom symptom) throws IOException {
        advice.addAll(Advice.onSpikes(config, of.course(), trained(of)));
        return result(symptom, curveText(symptom));
    }

    /** Class (b), or a run whose curve shows nothing. */
    private Doctor.Result onPrecision(Run of, Symptom symptom) throws IOException {
        long onset = triage == null ? 0 : triage.onset();
        if (request.baseline().isPresent() && symptom.fault() == Symptom.Fault.PRECISION) {
            restore(of);
        }
        long step = of.subject().step() != 0
                ? of.subject().step()
                : switch (symptom) {
                    case EARLY_MISMATCH -> 0;
                    case OWN_SPIKE, NOT_FINITE -> of.before(onset);
                    case LATE_DIVERGENCE -> of.from(onset);
                    case NONE, SHARED_SPIKE, SHARED_DIVERGENCE, REPLAYS, DOWNSTREAM -> of.before(Long.MAX_VALUE);
                };
        return replayed(symptom, step, symptom == Symptom.EARLY_MISMATCH);
    }

    /** Continues the last checkpoint that the baseline reaches far enough beyond, in the base type. */
    private void restore(Run of) throws IOException {
        Course theirs = curves.getLast().course();
        long end = theirs.points().getLast().step();
        long from = of.before(end - Triage.LEAST_STEPS + 1);
        if (from == 0) {
            return;
        }
        int steps = (int) Math.min(STRETCH, end - from);
        Optional<Course> base = continued(from, steps);
        if (base.isEmpty()) {
            return;
        }
        curves.add(new Doctor.Curve(policy().base().name() + " from step " + (from + 1), base.get()));
        Triage back = Triage.of(base.get(), theirs);
        double before = Triage.gapAt(of.course(), theirs, from);
        boolean returns = back.gap() <= back.threshold() || back.gap() < before / 2;
        restore = new Doctor.Restore(from, steps, before, back.gap(), returns);
    }

    private Doctor.Result replayed(Symptom symptom, long step, boolean features) throws IOException {
        int steps = ExaminationOptions.STEPS;
        long onset = triage == null ? 0 : triage.onset();
        if (onset > step && onset - step <= LONGEST_REPLAY) {
            steps = (int) Math.max(steps, onset - step + 1);
        }
        Duration left = request.budget().time().minusMillis((long) (1000 * watch.seconds()));
        ExaminationOptions options = ExaminationOptions.defaults()
                .withSteps(steps)
                .withLog(log(step, steps))
                .withBudget(
                        Math.max(0, request.budget().replays() - replaysRun), left.isNegative() ? Duration.ZERO : left)
                .withProgress(this::heard);
        Diagnosis diagnosis;
        try (CheckpointFile file = checkpoint(step)) {
            diagnosis = training()
                    .trainer()
                    .examine(file == null ? null : file.state(), features ? options.withFeatures() : options);
        }
        replays = told(diagnosis);
        complete &= diagnosis.complete();
        Symptom found = found(symptom, diagnosis.verdict());
        if (found.fault() == Symptom.Fault.TRAINING && run != null) {
            advice.addAll(Advice.onSpikes(config, run.course(), trained(run)));
        }
        if (diagnosis.proof().isPresent()) {
            write(cure(diagnosis));
        }
        advise(found, diagnosis);
        return result(found, sentence(found, diagnosis));
    }

    private void heard(Experiment experiment) {
        if (!experiment.reused()) {
            replaysRun++;
        }
        job.listener().progress("replaying: " + experiment.what(), replaysRun, 0, "replays");
    }

    private static Symptom found(Symptom symptom, Verdict verdict) {
        return switch (verdict) {
            case HEALTHY, NO_FP8 -> symptom;
            case SPIKE -> symptom == Symptom.NONE ? Symptom.SHARED_SPIKE : symptom;
            case REFERENCE_NOT_FINITE -> Symptom.SHARED_DIVERGENCE;
            case FEATURE, STALE_SCALES, RANGE, PRODUCT, SPREAD, UNFINISHED ->
                symptom == Symptom.NONE ? Symptom.REPLAYS : symptom;
        };
    }

    private static Doctor.Replays told(Diagnosis d) {
        return new Doctor.Replays(
                d.steps().getFirst(),
                d.steps().getLast(),
                d.layers(),
                d.verdict().name(),
                d.sentence(),
                d.evidence().experiments().stream().map(DoctorCase::trial).toList(),
                d.evidence().cells().stream().map(DoctorCase::cell).toList(),
                d.culprits().stream().map(DoctorCase::guilty).toList(),
                d.suspects().stream().map(LayerProduct::toString).toList(),
                d.proof().map(DoctorCase::trial).orElse(null),
                d.toFind());
    }

    private static Doctor.Trial trial(Experiment e) {
        Deviation d = e.deviation();
        return new Doctor.Trial(
                e.what(),
                d.excess(),
                d.by(),
                d.loss(),
                d.cosine(),
                d.update(),
                d.isSick(),
                e.reused(),
                e.replay().seconds(),
                e.replay().losses());
    }

    private static Doctor.Cell cell(Evidence.Cell c) {
        return new Doctor.Cell(c.product().module(), lower(c.product().product()), c.excess(), c.together());
    }

    private static Doctor.Guilty guilty(Culprit c) {
        return new Doctor.Guilty(
                c.products().stream().map(LayerProduct::toString).toList(),
                c.operands().stream().sorted().map(DoctorCase::lower).toList(),
                lower(c.remedy()).replace('_', ' '));
    }

    private static String lower(Enum<?> name) {
        return name.name().toLowerCase(Locale.ROOT);
    }

    private Cure cure(Diagnosis diagnosis) throws IOException {
        if (!diagnosis.feature().isEmpty()) {
            String off = diagnosis.feature().equals("filter") ? "none" : "false";
            return Cure.ofFeature(text, diagnosis.feature(), off);
        }
        try (OpenedModel opened = OpenedModel.of(model)) {
            return Cure.of(text, policy(), policy().layers(opened.canonical().graph()), diagnosis.cure());
        }
    }

    /** Keeps the cure, in place of one that an earlier examination found. */
    private void write(Cure found) throws IOException {
        cure = found;
        if (request.output().isEmpty()) {
            return;
        }
        Map<String, String> files = new LinkedHashMap<>();
        files.put("precision.yaml", found.precision());
        files.put("te-debug.yaml", found.teDebug());
        files.put("torchao_filter.py", found.torchaoFilter());
        for (Map.Entry<String, String> file : files.entrySet()) {
            Path path = request.output().get().resolve(file.getKey());
            if (file.getValue().isEmpty()) {
                Files.deleteIfExists(path);
                continue;
            }
            try (AtomicFile out = AtomicFile.create(path)) {
                out.write(ByteBuffer.wrap(file.getValue().getBytes(StandardCharsets.UTF_8)));
                out.commit();
            }
            written.add(path.toString());
        }
    }

    private void advise(Symptom symptom, Diagnosis diagnosis) {
        if (!diagnosis.complete()) {
            advice.add(
                    request.output().isEmpty()
                            ? "give a larger --budget; with --output, a later call would go on from here"
                            : "the same call with a larger --budget goes on from here");
        }
        if (symptom.fault() == Symptom.Fault.PRECISION && diagnosis.verdict() == Verdict.HEALTHY && run != null) {
            advice.add("replays of steps " + diagnosis.steps().getFirst() + " to "
                    + diagnosis.steps().getLast() + " show nothing: give a checkpoint nearer to the trouble with --step"
                    + (run.steps().isEmpty() ? "" : ", of " + run.steps()));
        }
        if (diagnosis.verdict() == Verdict.SPREAD) {
            advice.add("try another recipe: block or mxfp8, whose scales are those of small blocks");
        }
    }

    private String sentence(Symptom symptom, Diagnosis diagnosis) {
        String replayed = diagnosis.sentence().replaceFirst("\\.$", "");
        Triage t = triage;
        if (t == null || t.symptom() != symptom) { // the curves do not show it
            return replayed;
        }
        if (symptom == Symptom.NONE) {
            return diagnosis.complete() ? curveText(symptom) : replayed;
        }
        return diagnosis.verdict() == Verdict.HEALTHY ? curveText(symptom) : curveText(symptom) + "; " + replayed;
    }

    // class (c)

    /** Class (c): the export, or how it is evaluated; empty when neither is at fault. */
    private Optional<Doctor.Result> downstream(Run of) throws IOException {
        if (request.exported().isEmpty()) {
            advice.add("give what was exported with --exported, to see whether it computes what the trainer does");
            return Optional.of(result(
                    Symptom.DOWNSTREAM,
                    "the losses are equal and all tasks are bad: the export or the evaluation, not the training"));
        }
        Doctor.ExportFindings findings = ExportCheck.of(
                request.exported().get(),
                of.folder(),
                of.subject().model(),
                of.subject().step(),
                request.average(),
                Prove.Options.defaults().withDevice(request.device()),
                job);
        exported = findings;
        if (!findings.passed()) {
            findings.errors().stream().map(Doctor.ExportFinding::fix).distinct().forEach(advice::add);
            return Optional.of(result(
                    Symptom.DOWNSTREAM,
                    String.format(
                            Locale.ROOT,
                            "the export is wrong%s: %s (its outputs differ from the trainer's by %.2g times their"
                                    + " norm)",
                            symptom().fault() == Symptom.Fault.PRECISION ? "" : ", not the training",
                            why(findings),
                            findings.proof().worst())));
        }
        if (tasks == null || !tasks.blamesExport() || symptom().fault() == Symptom.Fault.PRECISION) {
            return Optional.empty();
        }
        advice.add("look at how it is evaluated: tokenizer, special tokens, prompts, number type of the server, and the"
                + " baseline's scores");
        return Optional.of(result(
                Symptom.DOWNSTREAM,
                "the evaluation, not the training and not the export: the exported model computes what the trainer"
                        + " does"));
    }

    private static String why(Doctor.ExportFindings findings) {
        if (findings.errors().isEmpty()) {
            return String.format(
                    Locale.ROOT,
                    "its worst weight is %s, %.1f dB from the run's",
                    findings.worstTensor(),
                    findings.sqnrDbMin());
        }
        Doctor.ExportFinding first = findings.errors().getFirst();
        return first.what()
                + (first.places().isEmpty() ? "" : " in " + first.places().getFirst())
                + (first.count() > 1 ? " and " + (first.count() - 1) + " more" : "");
    }

    // words

    private String curveText(Symptom symptom) {
        Triage t = triage;
        String base = request.baseline().isPresent()
                ? "the baseline"
                : "a replay in " + policy().base().name();
        if (t == null) {
            return symptom.text();
        }
        return switch (symptom) {
            case NONE ->
                String.format(
                        Locale.ROOT,
                        "healthy: over %d steps the loss stays within %s of that of %s",
                        t.steps(),
                        percent(Math.max(Math.abs(t.gap()), t.threshold())),
                        base);
            case SHARED_SPIKE ->
                t.spikes().isEmpty()
                        ? "not FP8's fault: the reference jumps as FP8 does"
                        : "not FP8's fault: " + spike(t.spikes().getFirst()) + " is in " + base
                                + " too, and both recover";
            case SHARED_DIVERGENCE ->
                "not FP8's fault: from step " + t.onset() + " on the loss rises in " + base
                        + " too, and neither recovers";
            case OWN_SPIKE -> "FP8: " + spike(t.spikes().getFirst()) + " is not in " + base;
            case EARLY_MISMATCH ->
                "FP8: from the first steps on the loss is above that of " + base + ", in the end by "
                        + percent(t.gap());
            case LATE_DIVERGENCE ->
                "FP8: from step " + t.onset() + " on the loss rises above that of " + base + ", in the end by "
                        + percent(t.gap());
            case NOT_FINITE ->
                "FP8: from step " + t.onset() + " on the loss is not finite, and that of " + base + " is";
            case REPLAYS, DOWNSTREAM -> symptom.text();
        };
    }

    private static String percent(double share) {
        return String.format(Locale.ROOT, "%.2g %%", 100 * share);
    }

    private static String spike(Spike spike) {
        return String.format(
                Locale.ROOT,
                "the spike at %s (loss %s over %.3g)",
                spike.first() == spike.last()
                        ? "step " + spike.first()
                        : "steps " + spike.first() + " to " + spike.last(),
                Double.isFinite(spike.peak()) ? String.format(Locale.ROOT, "%.3g", spike.peak()) : "not finite",
                spike.before());
    }

    /** What fitted its codes badly where the loss departs, or at the end where it does not; of a run whose precision is at fault. */
    private List<BadFit> badFits(Symptom symptom) throws IOException {
        if (run == null || symptom.fault() != Symptom.Fault.PRECISION) {
            return List.of();
        }
        long onset = triage == null ? 0 : triage.onset();
        return BadFit.around(
                run.folder(), onset > 0 ? onset : run.course().points().getLast().step());
    }

    private Doctor.Result result(Symptom symptom, String verdict) throws IOException {
        List<BadFit> badFits = badFits(symptom);
        boolean unexplained = replays == null || replays.guilty().isEmpty();
        return new Doctor.Result(
                request.subject().name(),
                symptom,
                symptom == Symptom.NONE && complete,
                unexplained && !badFits.isEmpty()
                        ? verdict.replaceFirst("\\.$", "") + "; " + badFits.getFirst().sentence()
                        : verdict,
                complete,
                triage,
                curves,
                badFits,
                restore,
                replays,
                tasks,
                exported,
                cure,
                advice,
                written,
                replaysRun,
                watch.seconds());
    }

    @Override
    public void close() throws IOException {
        if (training != null) {
            training.close();
        }
    }
}
