package dev.octet.pipeline;

import dev.octet.formats.ModelFile;
import dev.octet.formats.file.RunPaths;
import dev.octet.formats.graph.GraphModel;
import dev.octet.pipeline.run.DatasetTexts;
import dev.octet.pipeline.run.OpenedModel;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.pipeline.run.ShellWord;
import dev.octet.trainer.RunOptions;
import dev.octet.trainer.Trainer;
import dev.octet.trainer.TrainingParts;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.data.Feed;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.RunPlan;
import dev.octet.trainer.hook.TrainingHook;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * {@code octet train}: continues training a model, in a folder that holds checkpoints, metrics and the configuration.
 *
 * <pre>{@code
 * RunEnd end = Train.run(Train.Request.of(model, Path.of("train.yaml"), Path.of("runs/first")), Job.defaults());
 * }</pre>
 */
public final class Train {
    private Train() {}

    /**
     * What to train.
     *
     * @param model an ONNX file, or a checkpoint whose graph follows from its configuration
     * @param config what to do, as YAML
     * @param folder of the run
     * @param resumeFrom the step whose checkpoint the run in the folder continues from, 0 for the newest; empty for a new run
     * @param steps to do at most now; schedules do not depend on it
     * @param device where to compute
     */
    public record Request(
            Path model, Path config, Path folder, OptionalLong resumeFrom, long steps, DeviceName device) {
        /** A new run of all steps, on the processor. */
        public static Request of(Path model, Path config, Path folder) {
            return new Request(model, config, folder, OptionalLong.empty(), Long.MAX_VALUE, DeviceName.CPU);
        }

        /** The run that is in the folder, going on from its newest checkpoint. */
        public Request resuming() {
            return resumingFrom(0);
        }

        /** The run that is in the folder, going on from the checkpoint of a step. */
        public Request resumingFrom(long step) {
            return new Request(model, config, folder, OptionalLong.of(step), steps, device);
        }

        /** The same, at most so many steps now. */
        public Request withSteps(long most) {
            return new Request(model, config, folder, resumeFrom, most, device);
        }

        /** The same on another device. */
        public Request withDevice(DeviceName newDevice) {
            return new Request(model, config, folder, resumeFrom, steps, newDevice);
        }

        /** A command line that starts the same run, which {@code run.json} keeps. */
        public String commandLine() {
            return "octet train " + ShellWord.of(model) + " --config " + ShellWord.of(config) + " -o "
                    + ShellWord.of(folder) + (device.equals(DeviceName.CPU) ? "" : " --device " + device.text());
        }
    }

    /** Samples, by the name of their file. */
    public record Data(String name, long count) {}

    /** What is known of a run before its first step. */
    public record Setup(Request request, TrainingConfig config, Data train, Optional<Data> eval) {}

    /**
     * What a run would do.
     *
     * @param firstStep from 1; above 1 when it is resumed
     */
    public record Planned(Setup setup, RunPlan plan, long firstStep) {}

    /** Called once, when all that a run reads is open. */
    @FunctionalInterface
    public interface Watcher {
        /** Hooks to call while the run continues. */
        List<TrainingHook> hooks(Setup setup);
    }

    /**
     * Trains, as long as the configuration says.
     *
     * @throws dev.octet.formats.error.OctetException when configuration, model and data do not fit together, or a device is missing
     * @throws IOException when reading or writing fails
     */
    public static RunEnd run(Request request, Job job) throws IOException {
        return run(request, _ -> List.of(), job);
    }

    /** The same, watched. */
    public static RunEnd run(Request request, Watcher watcher, Job job) throws IOException {
        return with(request, job, (trainer, setup) -> {
            List<TrainingHook> hooks = new ArrayList<>(watcher.hooks(setup));
            hooks.add(new RunFolder.SavedConfig(request.config()));
            return trainer.run(request.folder(), options(request, job).withHooks(hooks));
        });
    }

    /** Says what {@link #run} would do; trains and writes nothing. */
    public static Planned plan(Request request, Job job) throws IOException {
        return with(
                request,
                job,
                (trainer, setup) ->
                        new Planned(setup, trainer.plan(), trainer.firstStep(request.folder(), options(request, job))));
    }

    private interface Work<T> {
        T apply(Trainer trainer, Setup setup) throws IOException;
    }

    private static <T> T with(Request request, Job job, Work<T> work) throws IOException {
        TrainingConfig config = TrainingConfig.read(request.config());
        RunFolder.requireApart(
                paths(request),
                request.folder(),
                request.config(),
                config,
                request.resumeFrom().isPresent());
        Path model = request.model();
        try (OpenedModel student = OpenedModel.of(model);
                Device device = request.device().open(job.threads());
                @Nullable OpenedModel teacher = openTeacher(config);
                Samples train = samples(config.data().train(), config, student.canonical(), model);
                @Nullable
                        Samples eval = config.data().eval().isPresent()
                                ? samples(config.data().eval().get(), config, student.canonical(), model)
                                : null) {
            TrainingParts parts = new TrainingParts(
                    config,
                    student.source(),
                    Optional.ofNullable(teacher).map(OpenedModel::source),
                    train,
                    Optional.ofNullable(eval),
                    digests(model, config));
            try (Trainer trainer = Trainer.of(parts, device)) {
                Optional<Data> evaluated = Optional.ofNullable(eval).map(e -> new Data(e.name(), e.count()));
                return work.apply(
                        trainer, new Setup(request, config, new Data(train.name(), train.count()), evaluated));
            }
        }
    }

    private static RunPaths paths(Request request) throws IOException {
        RunPaths paths = RunPaths.none().adding("--output", request.folder(), RunFolder.WRITTEN);
        paths = ModelFile.reading(paths, "MODEL", request.model());
        return ModelFile.reading(paths, "--config", request.config());
    }

    private static RunOptions options(Request request, Job job) {
        Map<String, String> manifest = new LinkedHashMap<>();
        manifest.put("command", request.commandLine());
        manifest.put(RunFolder.MODEL, request.model().toAbsolutePath().toString());
        manifest.put(RunFolder.CONFIG_FOLDER, RunFolder.parent(request.config()).toString());
        manifest.put("threads", String.valueOf(job.threads()));
        return new RunOptions(
                request.resumeFrom().isPresent(), request.resumeFrom().orElse(0), request.steps(), List.of(), manifest);
    }

    private static @Nullable OpenedModel openTeacher(TrainingConfig config) throws IOException {
        Optional<LossConfig.Distillation> distillation = config.loss().distillation();
        return distillation.isPresent() ? OpenedModel.of(distillation.get().teacher()) : null;
    }

    private static Samples samples(Path file, TrainingConfig config, GraphModel model, Path modelFile)
            throws IOException {
        LossConfig loss = config.loss();
        Optional<String> labels = loss.readsLabels() ? Optional.of(loss.labels()) : Optional.empty();
        return DatasetTexts.samples(file, config.data(), Feed.of(model, labels, loss.ignoreIndex()), modelFile);
    }

    private static Map<String, String> digests(Path model, TrainingConfig config) throws IOException {
        Map<String, String> digests = new TreeMap<>();
        digests.put("model", OpenedModel.digest(model));
        if (config.loss().distillation().isPresent()) {
            digests.put(
                    "teacher",
                    OpenedModel.digest(config.loss().distillation().get().teacher()));
        }
        return digests;
    }
}
