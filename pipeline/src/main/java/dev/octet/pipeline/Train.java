package dev.octet.pipeline;

import dev.octet.converter.data.DataFiles;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MemoryLimitException;
import dev.octet.formats.file.RunPaths;
import dev.octet.pipeline.run.DatasetTexts;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.pipeline.run.ShellWord;
import dev.octet.trainer.RunOptions;
import dev.octet.trainer.Trainer;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.DryDevice;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.dialect.DialectFiles;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.RunPlan;
import dev.octet.trainer.hook.StagePlan;
import dev.octet.trainer.hook.TrainingHook;
import dev.octet.trainer.hook.ZeroPlan;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;

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
     * @param settings keys of the configuration with other values, as {@code optimizer.lr=1e-4}; the run's folder keeps the configuration
     *     with them
     * @param simulatedRanks data-parallel ranks that one process plays, with the numbers of so many processes; empty where the configuration says
     * @param dialects configurations of other libraries that the run follows; the run's folder keeps them
     * @param memory whether a run that does not fit this machine's memory is refused
     */
    public record Request(
            Path model,
            Path config,
            Path folder,
            OptionalLong resumeFrom,
            long steps,
            DeviceName device,
            List<String> settings,
            OptionalInt simulatedRanks,
            DialectFiles dialects,
            MemoryCheck memory) {
        public Request {
            settings = List.copyOf(settings);
        }

        /** A new run of all steps, on the processor. */
        public static Request of(Path model, Path config, Path folder) {
            return new Request(
                    model,
                    config,
                    folder,
                    OptionalLong.empty(),
                    Long.MAX_VALUE,
                    DeviceName.CPU,
                    List.of(),
                    OptionalInt.empty(),
                    DialectFiles.NONE,
                    MemoryCheck.REFUSE);
        }

        /**
         * The run in a folder, going on from its newest checkpoint with the model and the configuration it was started with.
         *
         * @throws dev.octet.formats.error.OctetException when the folder is not a run, or its model is no longer there
         * @throws IOException when the folder cannot be read
         */
        public static Request ofRun(Path folder) throws IOException {
            return ofRun(folder, Optional.empty());
        }

        /**
         * The run in a folder, as {@link #ofRun(Path)}.
         *
         * @param model where the model lies now; empty for where it lay when the run was started
         */
        public static Request ofRun(Path folder, Optional<Path> model) throws IOException {
            return of(RunFolder.model(folder, model), RunFolder.config(folder), folder)
                    .resuming();
        }

        /** The run that is in the folder, going on from its newest checkpoint. */
        public Request resuming() {
            return resumingFrom(0);
        }

        /** The run that is in the folder, going on from the checkpoint of a step. */
        public Request resumingFrom(long step) {
            return new Request(
                    model,
                    config,
                    folder,
                    OptionalLong.of(step),
                    steps,
                    device,
                    settings,
                    simulatedRanks,
                    dialects,
                    memory);
        }

        /** The same, at most so many steps now. */
        public Request withSteps(long most) {
            return new Request(
                    model, config, folder, resumeFrom, most, device, settings, simulatedRanks, dialects, memory);
        }

        /** The same on another device. */
        public Request withDevice(DeviceName newDevice) {
            return new Request(
                    model, config, folder, resumeFrom, steps, newDevice, settings, simulatedRanks, dialects, memory);
        }

        /** The same with other values for some keys of the configuration, each {@code KEY=VALUE}. */
        public Request withSettings(List<String> assignments) {
            return new Request(
                    model, config, folder, resumeFrom, steps, device, assignments, simulatedRanks, dialects, memory);
        }

        /** The same with one process that plays so many data-parallel ranks, from 1 to {@link dev.octet.trainer.reduction.RankSettings#MOST}. */
        public Request withSimulatedRanks(int ranks) {
            return new Request(
                    model,
                    config,
                    folder,
                    resumeFrom,
                    steps,
                    device,
                    settings,
                    OptionalInt.of(ranks),
                    dialects,
                    memory);
        }

        /** The same with configurations of other libraries; {@code config} is one of them where the run has none of its own. */
        public Request withDialects(DialectFiles files) {
            return new Request(
                    model, config, folder, resumeFrom, steps, device, settings, simulatedRanks, files, memory);
        }

        /** The same, started even where it does not fit this machine's memory. */
        public Request withMemory(MemoryCheck check) {
            return new Request(
                    model, config, folder, resumeFrom, steps, device, settings, simulatedRanks, dialects, check);
        }

        /** A command line that starts the same run, which {@code run.json} keeps. */
        public String commandLine() {
            String own = dialects.files().containsValue(config) ? "" : " --config " + ShellWord.of(config);
            StringBuilder line = new StringBuilder("octet train " + ShellWord.of(model) + own);
            dialects.files()
                    .forEach((dialect, file) -> line.append(' ')
                            .append(DialectFiles.option(dialect))
                            .append(' ')
                            .append(ShellWord.of(file)));
            dialects.version()
                    .ifPresent(v -> line.append(" --deepspeed-version ").append(ShellWord.of(v)));
            line.append(" -o ").append(ShellWord.of(folder));
            settings.forEach(s -> line.append(" --set ").append(ShellWord.of(s)));
            simulatedRanks.ifPresent(n -> line.append(' ')
                    .append(RunFolder.SIMULATE_RANKS)
                    .append(' ')
                    .append(n));
            return line + onDevice() + (memory == MemoryCheck.OFF ? " --no-memory-check" : "");
        }

        /** A command line that lets the run go on. */
        public String resumeCommandLine() {
            return "octet train --resume " + ShellWord.of(folder) + onDevice();
        }

        private String onDevice() {
            return device.equals(DeviceName.CPU) ? "" : " --device " + device.text();
        }
    }

    /** What happens to a run that needs more than this machine's memory, and what that is swapped out to. */
    public enum MemoryCheck {
        /** It is refused before it starts. */
        REFUSE,
        /** It starts. */
        OFF
    }

    /** Samples, by the name of their file. */
    public record Data(String name, long count) {}

    /**
     * What is known of a run before its first step.
     *
     * @param notes what configurations of other libraries do otherwise than one reads
     */
    public record Setup(Request request, TrainingConfig config, List<String> notes, Data train, Optional<Data> eval) {
        public Setup {
            notes = List.copyOf(notes);
        }
    }

    /**
     * What a run would do.
     *
     * @param firstStep from 1; above 1 when it is resumed
     * @param shards what ranks keep with each stage of sharing out; empty without ranks
     * @param stages what each stage of a pipeline has and does; empty without stages
     * @param shortage why {@link #run} would refuse it; empty where its memory is there
     */
    public record Planned(
            Setup setup,
            RunPlan plan,
            long firstStep,
            Optional<ZeroPlan> shards,
            Optional<StagePlan> stages,
            Optional<Shortage> shortage) {}

    /**
     * A run that does not fit this machine's memory.
     *
     * @param neededBytes at least
     * @param limitBytes what there is, with what it can be swapped out to
     * @param fix the smallest change that fits, as a sentence
     */
    public record Shortage(long neededBytes, long limitBytes, String fix) {}

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
        return run(request, watcher, job, Collectives.alone());
    }

    /**
     * The same, as one rank of a run that several do together, each with the same request. What the configuration leaves out about ranks follows from their number. The first rank
     * writes the folder.
     *
     * @param world the ranks; the caller closes it, and abandons it when this throws
     */
    public static RunEnd run(Request request, Watcher watcher, Job job, Collectives world) throws IOException {
        try {
            return run(request, watcher, job, world, opening(request));
        } catch (MemoryLimitException e) {
            throw world.isAlone() ? e.withFix(SmallerRun.advice(request, job, e.limitBytes())) : e;
        }
    }

    private static RunEnd run(
            Request request, Watcher watcher, Job job, Collectives world, TrainingJob.DeviceOpening device)
            throws IOException {
        return with(request, job, world, device, (trainer, setup) -> {
            List<TrainingHook> hooks = new ArrayList<>(watcher.hooks(setup));
            if (world.isFirst()) {
                hooks.add(new RunFolder.SavedConfig(
                        request.config(),
                        request.settings(),
                        request.simulatedRanks(),
                        dialects(request),
                        setup.config().debug().file()));
            }
            return trainer.run(request.folder(), options(request, job).withHooks(hooks));
        });
    }

    /** Says what {@link #run} would do; trains and writes nothing. */
    public static Planned plan(Request request, Job job) throws IOException {
        return plan(request, job, Collectives.alone());
    }

    /** The same of a run that several ranks do together: what it needs on this one. */
    public static Planned plan(Request request, Job job, Collectives world) throws IOException {
        Planned planned = with(
                request,
                job,
                world,
                request.device().equals(DeviceName.CPU)
                        ? threads -> new DryDevice(request.device().open(threads))
                        : request.device()::open,
                (trainer, setup) -> new Planned(
                        setup,
                        trainer.plan(),
                        trainer.firstStep(request.folder(), options(request, job)),
                        trainer.zeroPlan(),
                        trainer.stagePlan(),
                        Optional.empty()));
        Optional<Shortage> shortage =
                world.isAlone() ? SmallerRun.shortage(request, planned.plan(), job) : Optional.empty();
        return new Planned(
                planned.setup(), planned.plan(), planned.firstStep(), planned.shards(), planned.stages(), shortage);
    }

    private interface Work<T> {
        T apply(Trainer trainer, Setup setup) throws IOException;
    }

    /** The device of a run, which refuses what does not fit unless that is switched off. */
    private static TrainingJob.DeviceOpening opening(Request request) {
        return threads -> {
            Device device = request.device().open(threads);
            return request.memory() == MemoryCheck.OFF && device instanceof CpuDevice cpu
                    ? cpu.limitedTo(Long.MAX_VALUE)
                    : device;
        };
    }

    /** Opens what a request names, on a device, for some work. */
    private static <T> T with(
            Request request, Job job, Collectives world, TrainingJob.DeviceOpening device, Work<T> work)
            throws IOException {
        requireOneProcess(request, world);
        DialectFiles.Merged merged =
                RunFolder.merged(request.config(), request.settings(), request.simulatedRanks(), dialects(request));
        TrainingConfig config = TrainingConfig.of(
                merged.section(), RunFolder.configFolder(request.config(), request.folder()), world.size());
        boolean resumed = request.resumeFrom().isPresent();
        RunFolder.requireApart(paths(request), request.folder(), request.config(), config, resumed);
        requireReady(request, config); // before the model is opened, which may take long
        try (TrainingJob opened = TrainingJob.openOn(device, request.model(), config, job, world)) {
            Optional<Data> evaluated = opened.eval().map(e -> new Data(e.name(), e.count()));
            Data trained = new Data(opened.train().name(), opened.train().count());
            return work.apply(
                    opened.trainer(), new Setup(request, opened.config(), merged.notes(), trained, evaluated));
        }
    }

    private static void requireOneProcess(Request request, Collectives world) {
        if (request.simulatedRanks().isPresent() && !world.isAlone()) {
            throw new InvalidOptionException(
                    "the run has " + world.size() + " processes, and each is one rank",
                    RunFolder.SIMULATE_RANKS + " " + request.simulatedRanks().getAsInt() + "; " + world.name(),
                    "leave " + RunFolder.SIMULATE_RANKS + " out, or start one process without a launcher");
        }
    }

    /** Refuses a folder that has a run, or none where one is to go on, and files that are not there. */
    private static void requireReady(Request request, TrainingConfig config) throws IOException {
        CheckpointFolder checkpoints = new CheckpointFolder(request.folder());
        if (request.resumeFrom().isPresent()) {
            checkpoints.requireSome();
        } else {
            checkpoints.requireNone();
        }
        List<Path> read = new ArrayList<>(List.of(config.data().train()));
        config.data().eval().ifPresent(read::add);
        read.removeIf(DataFiles::isSplit);
        read.addFirst(request.model());
        config.data().chat().template().ifPresent(read::add);
        config.loss().distillation().ifPresent(d -> read.add(d.teacher()));
        config.precision().qat().flatMap(q -> q.scales().calibration()).ifPresent(c -> read.add(c.statistics()));
        if (DataFiles.isRows(config.data().train())
                || config.data().eval().filter(DataFiles::isRows).isPresent()) {
            read.add(DatasetTexts.tokenizer(config.data(), request.model()));
        }
        for (Path path : read) {
            if (!Files.exists(path)) {
                throw new NoSuchFileException(path.toString());
            }
        }
    }

    private static DialectFiles dialects(Request request) {
        return request.dialects().on(request.device().isGpu());
    }

    private static RunPaths paths(Request request) throws IOException {
        RunPaths paths = RunPaths.none().adding("--output", request.folder(), RunFolder.WRITTEN);
        paths = ModelFile.reading(paths, "MODEL", request.model());
        return request.dialects().reading(ModelFile.reading(paths, "--config", request.config()));
    }

    private static RunOptions options(Request request, Job job) throws IOException {
        Map<String, String> manifest = new LinkedHashMap<>();
        manifest.put("command", request.commandLine());
        manifest.put(RunFolder.MODEL, request.model().toAbsolutePath().toString());
        manifest.put(
                RunFolder.CONFIG_FOLDER,
                RunFolder.configFolder(request.config(), request.folder()).toString());
        manifest.put("threads", String.valueOf(job.threads()));
        RunOptions options = RunOptions.defaults().withMaxSteps(request.steps()).withManifest(manifest);
        return request.resumeFrom().isPresent()
                ? options.resumingFrom(request.resumeFrom().getAsLong())
                : options;
    }
}
