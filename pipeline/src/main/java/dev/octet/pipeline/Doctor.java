package dev.octet.pipeline;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.pipeline.doctor.Advice;
import dev.octet.pipeline.doctor.Course;
import dev.octet.pipeline.doctor.Spike;
import dev.octet.pipeline.doctor.Symptom;
import dev.octet.pipeline.doctor.TaskScores;
import dev.octet.pipeline.doctor.Triage;
import dev.octet.pipeline.run.RunFolder;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * {@code octet doctor}: what ails a run in FP8, where it comes from, and the smallest cure.
 *
 * <pre>{@code
 * Doctor.Result found = Doctor.run(Doctor.Request.of(Path.of("runs/fp8")), Job.defaults());
 * }</pre>
 *
 * <p>The method is NVIDIA's for debugging FP8 training: triage into (a) spikes that the baseline has too, (b) mismatch or divergence, (c) equal
 * losses with other scores downstream; then short replays of the same batches.
 */
public final class Doctor {
    /** What it writes in its folder: the journal of finished replays, and the cure in the words of three tools. */
    public static final List<String> WRITTEN =
            List.of("journal.jsonl", "precision.yaml", "te-debug.yaml", "torchao-filter.txt");

    private Doctor() {}

    /** What is examined. */
    public sealed interface Subject {
        /**
         * A run, as its folder has it.
         *
         * @param folder what {@code octet train -o} wrote
         * @param model where the model lies now; empty for where it lay when the run was started
         * @param step of the checkpoint that replays start from; 0 for the one that the curve asks for
         */
        record Run(Path folder, Optional<Path> model, long step) implements Subject {
            @Override
            public String name() {
                return folder.toString();
            }
        }

        /**
         * A model before its first step.
         *
         * @param config what the run would do, as YAML
         * @param settings keys of the configuration with other values, as {@code data.train=texts.jsonl}
         */
        record Untrained(Path model, Path config, List<String> settings) implements Subject {
            public Untrained {
                settings = List.copyOf(settings);
            }

            @Override
            public String name() {
                return model.toString();
            }
        }

        /** Its folder or file. */
        String name();
    }

    /**
     * How much may be spent.
     *
     * @param replays at most
     * @param time no replay is begun later
     */
    public record Budget(int replays, Duration time) {
        /** As much as it takes. */
        public static final Budget UNLIMITED = new Budget(Integer.MAX_VALUE, Duration.ofDays(365));

        public Budget {
            if (replays < 0 || time.isNegative()) {
                throw new IllegalArgumentException("a budget of " + replays + " replays, " + time);
            }
        }

        /** So many replays, however long they take. */
        public static Budget ofReplays(int count) {
            return new Budget(count, UNLIMITED.time);
        }

        /** So much time, however many replays that is. */
        public static Budget ofTime(Duration most) {
            return new Budget(UNLIMITED.replays, most);
        }
    }

    /**
     * What to examine.
     *
     * @param baseline folder of a run of the same data in BF16 or F32; empty to replay a stretch of the run in its base type
     * @param tasks scores of tasks, see {@link TaskScores}
     * @param exported what was exported from the run, and gave bad scores
     * @param output a folder for the cure and the journal of finished replays; empty to keep nothing
     * @param device where replays compute
     */
    public record Request(
            Subject subject,
            Optional<Path> baseline,
            Optional<Path> tasks,
            Optional<Path> exported,
            Optional<Path> output,
            Budget budget,
            DeviceName device) {
        /** A run, with all that it takes, kept nowhere. */
        public static Request of(Path run) {
            return of(new Subject.Run(run, Optional.empty(), 0));
        }

        /** A run or a model. */
        public static Request of(Subject subject) {
            return new Request(
                    subject,
                    Optional.empty(),
                    Optional.empty(),
                    Optional.empty(),
                    Optional.empty(),
                    Budget.UNLIMITED,
                    DeviceName.CPU);
        }

        /** The same with a baseline. */
        public Request withBaseline(Path run) {
            return new Request(subject, Optional.of(run), tasks, exported, output, budget, device);
        }

        /** The same with scores of tasks. */
        public Request withTasks(Path file) {
            return new Request(subject, baseline, Optional.of(file), exported, output, budget, device);
        }

        /** The same with an exported model. */
        public Request withExported(Path model) {
            return new Request(subject, baseline, tasks, Optional.of(model), output, budget, device);
        }

        /** The same, keeping cure and journal in a folder. */
        public Request withOutput(Path folder) {
            return new Request(subject, baseline, tasks, exported, Optional.of(folder), budget, device);
        }

        /** The same within a budget. */
        public Request withBudget(Budget newBudget) {
            return new Request(subject, baseline, tasks, exported, output, newBudget, device);
        }

        /** The same on another device. */
        public Request withDevice(DeviceName newDevice) {
            return new Request(subject, baseline, tasks, exported, output, budget, newDevice);
        }
    }

    /**
     * A line of the evidence.
     *
     * @param tried what was compared or replayed
     * @param found what came of it, in a few words
     * @param distance how far from the baseline; NaN where nothing was measured
     */
    public record Evidence(String tried, String found, double distance) {}

    /**
     * A broken rule of {@code octet verify}.
     *
     * @param places the first few
     */
    public record ExportFinding(String rule, String what, long count, List<String> places, String fix) {
        public ExportFinding {
            places = List.copyOf(places);
        }
    }

    /**
     * An exported model, held against its run.
     *
     * @param layout how its weights lie
     * @param errors broken rules, with the run's weights as the original
     * @param sqnrDbMin of the worst weight, against the run's
     * @param worstTensor its name
     * @param proof the outputs of both
     */
    public record ExportFindings(
            String exported,
            String layout,
            List<ExportFinding> errors,
            double sqnrDbMin,
            String worstTensor,
            Prove.Result proof,
            boolean passed) {
        public ExportFindings {
            errors = List.copyOf(errors);
        }
    }

    /**
     * What was found.
     *
     * @param subject the run or model
     * @param symptom what the curves, scores and replays come down to
     * @param verdict in one sentence
     * @param complete whether the budget was enough
     * @param triage of the curves; null without
     * @param tasks null without scores
     * @param exported null where nothing exported was looked at
     * @param advice what to do, each a sentence
     * @param replays that ran for this answer, without those taken from the journal
     */
    public record Result(
            String subject,
            Symptom symptom,
            String verdict,
            boolean complete,
            @Nullable Triage triage,
            @Nullable TaskScores tasks,
            @Nullable ExportFindings exported,
            List<Evidence> evidence,
            List<String> advice,
            int replays,
            double seconds) {
        public Result {
            evidence = List.copyOf(evidence);
            advice = List.copyOf(advice);
        }

        /** Whether nothing was found. */
        public boolean healthy() {
            return symptom == Symptom.NONE;
        }
    }

    /**
     * Examines a run or a model.
     *
     * @throws dev.octet.formats.error.OctetException when the folder is not a run, does not compute in FP8, has too few steps, or model, data
     *     or baseline are not its own
     * @throws IOException when reading or writing fails
     */
    public static Result run(Request request, Job job) throws IOException {
        return switch (request.subject()) {
            case Subject.Run run -> new Examination(request, run, job).result();
            case Subject.Untrained _ -> throw job.invalid("not yet", "give a run");
        };
    }

    /** One run, looked at. */
    private static final class Examination {
        private final Request request;
        private final Subject.Run subject;
        private final Job job;
        private final Stopwatch watch = new Stopwatch();
        private final List<Evidence> evidence = new ArrayList<>();
        private final List<String> advice = new ArrayList<>();
        private final RunFolder run;
        private final Course course;
        private @Nullable TaskScores tasks;
        private @Nullable ExportFindings exported;

        Examination(Request request, Subject.Run subject, Job job) throws IOException {
            this.request = request;
            this.subject = subject;
            this.job = job;
            this.run = RunFolder.open(subject.folder(), subject.model());
            if (!run.config().precision().isFp8()) {
                throw new InvalidDataException(
                        "the run does not compute in FP8: precision.mode is "
                                + run.config().precision().mode(),
                        run.folder().toString(),
                        "give a run with precision: {mode: fp8}; this one can be its --baseline");
            }
            this.course = Course.read(run.folder());
            if (course.size() < Triage.LEAST_STEPS) {
                throw new InvalidDataException(
                        "the run has " + course.size() + " steps, and a curve says nothing before "
                                + Triage.LEAST_STEPS,
                        run.folder().resolve("metrics.jsonl").toString(),
                        "train on with octet train --resume; or examine the model before its first step: octet doctor "
                                + "MODEL --config " + RunFolder.config(run.folder()));
            }
        }

        Result result() throws IOException {
            if (request.tasks().isPresent()) {
                tasks = TaskScores.read(request.tasks().get());
            }
            Triage triage = null;
            if (request.baseline().isPresent()) {
                triage = Triage.of(course, baseline(request.baseline().get()));
            }
            Symptom symptom = triage == null ? Symptom.NONE : triage.symptom();
            boolean exportSuspected = request.exported().isPresent() || (tasks != null && tasks.isExport());
            if (symptom.fault() == Symptom.Fault.NONE && exportSuspected) {
                return downstream(triage);
            }
            if (symptom.fault() == Symptom.Fault.TRAINING) {
                advice.addAll(Advice.onSpikes(run.config(), course, 0));
            }
            return result(symptom, verdict(symptom, triage), triage);
        }

        /** The curve of a run on the same batches. */
        private Course baseline(Path folder) throws IOException {
            RunFolder other = RunFolder.open(folder, Optional.empty());
            if (other.config().precision().isFp8()) {
                throw new InvalidDataException(
                        "the baseline computes in FP8 itself",
                        folder.toString(),
                        "give a run of the same configuration with precision: {mode: bf16}");
            }
            List<String> differing = RunFolder.differences(run.folder(), folder);
            if (!differing.isEmpty()) {
                throw new InvalidDataException(
                        "the baseline is another run: "
                                + differing.stream().limit(5).collect(Collectors.joining("; ")),
                        folder.toString(),
                        "give a run of the same data and configuration, precision alone being another");
            }
            Course theirs = Course.read(folder);
            long shared = course.sharedWith(theirs).size();
            if (shared < Triage.LEAST_STEPS) {
                throw new InvalidDataException(
                        "the baseline has " + shared + " steps in common with the run, and at least "
                                + Triage.LEAST_STEPS + " are needed",
                        folder.toString(),
                        "train the baseline further");
            }
            return theirs;
        }

        /** Class (c): the export, or how it is evaluated. */
        private Result downstream(@Nullable Triage triage) throws IOException {
            if (request.exported().isEmpty()) {
                advice.add("give what was exported with --exported, to see whether it computes what the trainer does");
                return result(
                        Symptom.DOWNSTREAM,
                        "the losses are equal and all tasks are bad: the export or the evaluation, not the training",
                        triage);
            }
            ExportFindings findings = ExportCheck.of(
                    request.exported().get(),
                    subject.folder(),
                    subject.model(),
                    subject.step(),
                    Prove.Options.defaults().withDevice(request.device()),
                    job);
            exported = findings;
            evidence.add(new Evidence(
                    "outputs of the exported model against the trainer's",
                    findings.proof().passed() ? "the same" : "other outputs",
                    findings.proof().worst()));
            findings.errors()
                    .forEach(e -> evidence.add(
                            new Evidence("octet verify: " + e.rule(), e.what() + ", " + e.count() + " times", Double.NaN)));
            if (findings.passed()) {
                advice.add("the exported model computes what the trainer does: look at how it is evaluated (tokenizer,"
                        + " special tokens, prompts, number type of the server)");
                return tasks == null || tasks.bad().isEmpty()
                        ? result(Symptom.NONE, "healthy: the exported model computes what the trainer does", triage)
                        : result(
                                Symptom.DOWNSTREAM,
                                "the evaluation, not the training and not the export: the exported model computes what"
                                        + " the trainer does",
                                triage);
            }
            findings.errors().forEach(e -> advice.add(e.fix()));
            String why = findings.errors().isEmpty()
                    ? "its worst weight is " + findings.worstTensor()
                    : findings.errors().getFirst().what() + " in "
                            + findings.errors().getFirst().places().getFirst()
                            + (findings.errors().getFirst().count() > 1
                                    ? " and " + (findings.errors().getFirst().count() - 1) + " more"
                                    : "");
            return result(
                    Symptom.DOWNSTREAM,
                    String.format(
                            Locale.ROOT,
                            "the export is wrong, not the training: %s (outputs differ from the trainer's by %.2g times"
                                    + " their norm)",
                            why,
                            findings.proof().worst()),
                    triage);
        }

        private String verdict(Symptom symptom, @Nullable Triage triage) {
            if (triage == null) {
                return "nothing was compared";
            }
            String base = "the baseline";
            return switch (symptom) {
                case NONE ->
                    String.format(
                            Locale.ROOT,
                            "healthy: over %d steps the loss stays within %.2g %% of %s's",
                            triage.steps(),
                            100 * Math.max(Math.abs(triage.gap()), 0.01),
                            base);
                case SHARED_SPIKE ->
                    "not FP8's fault: " + spike(triage.spikes().getFirst()) + " is in " + base
                            + " too, and both recover";
                case SHARED_DIVERGENCE ->
                    "not FP8's fault: from step " + triage.onset() + " on the loss rises in " + base
                            + " too, and neither recovers";
                case OWN_SPIKE ->
                    "FP8: " + spike(triage.spikes().getFirst()) + " is not in " + base;
                case EARLY_MISMATCH ->
                    String.format(
                            Locale.ROOT,
                            "FP8: from the first steps on the loss is above %s's, in the end by %.2g %%",
                            base,
                            100 * triage.gap());
                case LATE_DIVERGENCE ->
                    String.format(
                            Locale.ROOT,
                            "FP8: from step %d on the loss rises above %s's, in the end by %.2g %%",
                            triage.onset(),
                            base,
                            100 * triage.gap());
                case NOT_FINITE -> "FP8: from step " + triage.onset() + " on the loss is not finite, and " + base + "'s is";
                case DOWNSTREAM -> "the losses are equal and scores of tasks are not";
            };
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

        private Result result(Symptom symptom, String verdict, @Nullable Triage triage) {
            return new Result(
                    request.subject().name(),
                    symptom,
                    verdict,
                    true,
                    triage,
                    tasks,
                    exported,
                    evidence,
                    advice,
                    0,
                    watch.seconds());
        }
    }
}
