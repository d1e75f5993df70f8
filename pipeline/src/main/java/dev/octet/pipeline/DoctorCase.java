package dev.octet.pipeline;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.AtomicFile;
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
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.hook.MetricsFile;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.replay.Diagnosis;
import dev.octet.trainer.replay.ExaminationOptions;
import dev.octet.trainer.replay.Verdict;
import dev.octet.trainer.yaml.Section;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
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
    private final @Nullable ExaminedRun run;
    private final CaseReplays replaying;

    private final List<Doctor.Curve> curves = new ArrayList<>();
    private final List<String> advice = new ArrayList<>();
    private final List<String> written = new ArrayList<>();
    private @Nullable Triage triage;
    private Doctor.@Nullable Restore restore;
    private Doctor.@Nullable Replays replays;
    private @Nullable TaskScores tasks;
    private Doctor.@Nullable ExportFindings exported;
    private @Nullable Cure cure;
    private boolean complete = true;

    private DoctorCase(
            Doctor.Request request,
            Job job,
            Path model,
            Section text,
            TrainingConfig config,
            @Nullable ExaminedRun run) {
        this.request = request;
        this.job = job;
        this.model = model;
        this.text = text;
        this.config = config;
        this.run = run;
        this.replaying = new CaseReplays(request, job, model, text, config, run);
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
        ExaminedRun of = new ExaminedRun(subject, course, steps);
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
        ExaminedRun of = run;
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

    private void compare(ExaminedRun of, String name, Course with) {
        curves.add(new Doctor.Curve(name, with));
        triage = Triage.of(of.course(), with);
    }

    /** The curve of a run on the same batches. */
    private static Course baseline(ExaminedRun of, Path folder) throws IOException {
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

    /** The losses of the base type from a step on; empty when the budget is spent. */
    private Optional<Course> continued(long from, int steps) throws IOException {
        Optional<Course> course = replaying.continued(from, steps);
        complete &= course.isPresent();
        return course;
    }

    private String curveText(Symptom symptom) {
        String base = request.baseline().isPresent()
                ? "the baseline"
                : "a replay in " + policy().base().name();
        return CurveText.of(symptom, triage, base);
    }

    private Fp8Policy policy() {
        return (Fp8Policy) config.precision().policy();
    }

    /** Without a baseline: the base type from before the first trouble on, or from the beginning. */
    private void stretch(ExaminedRun of) throws IOException {
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

    /** Class (a). */
    private Doctor.Result onTraining(ExaminedRun of, Symptom symptom) throws IOException {
        advice.addAll(Advice.onSpikes(config, of.course(), of.trainedNumbers()));
        return result(symptom, curveText(symptom));
    }

    /** Class (b), or a run whose curve shows nothing. */
    private Doctor.Result onPrecision(ExaminedRun of, Symptom symptom) throws IOException {
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
    private void restore(ExaminedRun of) throws IOException {
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
        Diagnosis diagnosis = replaying.examined(step, steps, features);
        replays = ReplayFacts.of(diagnosis);
        complete &= diagnosis.complete();
        Symptom found = found(symptom, diagnosis.verdict());
        if (found.fault() == Symptom.Fault.TRAINING && run != null) {
            advice.addAll(Advice.onSpikes(config, run.course(), run.trainedNumbers()));
        }
        if (diagnosis.proof().isPresent()) {
            write(cure(diagnosis));
        }
        advise(found, diagnosis);
        return result(found, sentence(found, diagnosis));
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
    private Optional<Doctor.Result> downstream(ExaminedRun of) throws IOException {
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
                            ExportCheck.worst(findings),
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

    /** What fitted its codes badly where the loss departs, or at the end where it does not; of a run whose precision is at fault. */
    private List<BadFit> badFits(Symptom symptom) throws IOException {
        if (run == null || symptom.fault() != Symptom.Fault.PRECISION) {
            return List.of();
        }
        long onset = triage == null ? 0 : triage.onset();
        return BadFit.around(
                run.folder(),
                onset > 0 ? onset : run.course().points().getLast().step());
    }

    private Doctor.Result result(Symptom symptom, String verdict) throws IOException {
        List<BadFit> badFits = badFits(symptom);
        boolean unexplained = replays == null || replays.guilty().isEmpty();
        return new Doctor.Result(
                request.subject().name(),
                symptom,
                symptom == Symptom.NONE && complete,
                unexplained && !badFits.isEmpty()
                        ? verdict.replaceFirst("\\.$", "") + "; "
                                + badFits.getFirst().sentence()
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
                replaying.made(),
                replaying.seconds());
    }

    @Override
    public void close() throws IOException {
        replaying.close();
    }
}
