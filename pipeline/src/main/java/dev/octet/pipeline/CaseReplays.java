package dev.octet.pipeline;

import dev.octet.formats.OctetVersion;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.Sha256;
import dev.octet.pipeline.doctor.Course;
import dev.octet.pipeline.run.OpenedModel;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.checkpoint.TrainingState;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.replay.Continuation;
import dev.octet.trainer.replay.Diagnosis;
import dev.octet.trainer.replay.ExaminationOptions;
import dev.octet.trainer.replay.Excerpt;
import dev.octet.trainer.replay.Experiment;
import dev.octet.trainer.replay.Replay;
import dev.octet.trainer.replay.ReplayLog;
import dev.octet.trainer.yaml.Section;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The replays of one examination: the trainer, opened when the first is made; the log that keeps finished ones; the budget they spend.
 *
 * <p>Not thread-safe.
 */
final class CaseReplays implements AutoCloseable {
    private final Doctor.Request request;
    private final Job job;
    private final Path model;
    private final Section text;
    private final TrainingConfig config;
    private final @Nullable ExaminedRun run;
    private final Stopwatch watch = new Stopwatch();
    private final Set<Path> begun = new HashSet<>();
    private @Nullable TrainingJob training;
    private int made;

    /**
     * @param text the configuration as it was written
     * @param run null for a model before its first step
     */
    CaseReplays(
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
    }

    /** How many were made, without those that an earlier examination left. */
    int made() {
        return made;
    }

    /** Since the examination began. */
    double seconds() {
        return watch.seconds();
    }

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
        return made >= request.budget().replays()
                || watch.seconds() > request.budget().time().toSeconds();
    }

    /** The losses of the base type from a step on; empty when the budget is spent. */
    Optional<Course> continued(long from, int steps) throws IOException {
        ReplayLog log = log(from, steps);
        String key = "continued in " + policy().base().name();
        Optional<Replay> known = log.find(key);
        if (known.isEmpty()) {
            if (isSpent()) {
                return Optional.empty();
            }
            job.listener()
                    .progress(
                            "continuing step " + from + " in " + policy().base().name(), 0, 1, "replays");
            try (CheckpointFile file = checkpoint(from);
                    Arena arena = Arena.ofShared()) {
                TrainingState state = file == null ? null : file.state();
                Excerpt excerpt = training().trainer().excerpt(state, steps, arena);
                Replay continuation = Continuation.of(key, excerpt, policy().base());
                log.add(continuation);
                made++;
                known = Optional.of(continuation);
            }
        }
        return Optional.of(Course.of(
                from + 1, known.get().losses().stream().mapToDouble(d -> d).toArray()));
    }

    /**
     * Replays of some steps, until it is known what they lack or the budget is spent.
     *
     * @param step before the first
     * @param features whether features may be at fault
     */
    Diagnosis examined(long step, int steps, boolean features) throws IOException {
        Duration left = request.budget().time().minusMillis((long) (1000 * watch.seconds()));
        ExaminationOptions options = ExaminationOptions.defaults()
                .withSteps(steps)
                .withLog(log(step, steps))
                .withBudget(Math.max(0, request.budget().replays() - made), left.isNegative() ? Duration.ZERO : left)
                .withProgress(this::heard);
        try (CheckpointFile file = checkpoint(step)) {
            return training()
                    .trainer()
                    .examine(file == null ? null : file.state(), features ? options.withFeatures() : options);
        }
    }

    private void heard(Experiment experiment) {
        if (!experiment.reused()) {
            made++;
        }
        job.listener().progress("replaying: " + experiment.what(), made, 0, "replays");
    }

    private Fp8Policy policy() {
        return (Fp8Policy) config.precision().policy();
    }

    @Override
    public void close() throws IOException {
        if (training != null) {
            training.close();
        }
    }
}
