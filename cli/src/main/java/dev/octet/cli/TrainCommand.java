package dev.octet.cli;

import dev.octet.formats.graph.GraphModel;
import dev.octet.trainer.RunOptions;
import dev.octet.trainer.Trainer;
import dev.octet.trainer.TrainingParts;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.data.Feed;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.CudaDevice;
import dev.octet.trainer.device.cuda.Gpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.hook.Interruption;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.TrainingHook;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import org.apache.commons.cli.Option;
import org.jspecify.annotations.Nullable;

/** {@code octet train MODEL --config C.yaml -o RUN}: continues training. */
final class TrainCommand implements Command {
    private static final PathOption CONFIG =
            PathOption.read("config", "FILE", "what to do, as YAML; docs/training.md has every key");
    private static final PathOption RUN = PathOption.outputIn(
            "RUN", "folder of the run: checkpoints, metrics.jsonl, tensorboard, run.json", RunFolder.WRITTEN);
    private static final Option RESUME = Flags.flag("resume", "go on from the newest checkpoint in RUN");
    private static final Option FROM_STEP =
            Flags.value("from-step", "N", "with --resume: go on from the checkpoint of step N (default: the newest)");
    private static final Option STEPS = Flags.value(
            "steps", "N", "do at most N steps now; the schedule stays that of the configuration (default: all)");
    static final Option DEVICE = Flags.value("device", "cpu|cuda[:N]|reference", "where to compute (default: cpu)");

    @Override
    public String name() {
        return "train";
    }

    @Override
    public String summary() {
        return "Continue training a model; Ctrl-C ends it with a checkpoint.";
    }

    @Override
    public List<String> operands() {
        return List.of("MODEL");
    }

    @Override
    public List<Option> options() {
        return List.of(CONFIG, RUN, RESUME, FROM_STEP, STEPS, DEVICE, Flags.THREADS, Flags.DRY_RUN);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet train model.onnx --config train.yaml -o runs/first",
                "octet train model.onnx --config train.yaml -o runs/first --resume --steps 500");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        Path model = arguments.operand(0);
        Path configFile = arguments
                .path(CONFIG)
                .orElseThrow(
                        () -> arguments.usage("missing --config FILE", "docs/training.md shows one to start from"));
        Path folder = arguments.requiredPath(RUN);
        if (arguments.has(FROM_STEP) && !arguments.has(RESUME)) {
            throw arguments.usage("--from-step without --resume", "add --resume");
        }
        TrainingConfig config = TrainingConfig.read(configFile);
        RunFolder.requireApart(arguments.paths(), folder, configFile, config, arguments.has(RESUME));
        try (OpenedModel student = OpenedModel.of(model);
                Device device = device(arguments);
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
                TrainPage page = new TrainPage(arguments, screen, model, configFile, folder, config);
                page.data(train, eval);
                RunOptions options = options(arguments, page, configFile);
                return arguments.has(Flags.DRY_RUN)
                        ? dryRun(trainer, page, folder, options)
                        : run(trainer, page, folder, options);
            }
        }
    }

    private static ExitCode dryRun(Trainer trainer, TrainPage page, Path folder, RunOptions options)
            throws IOException {
        long first = trainer.firstStep(folder, options);
        page.plan(trainer.plan(), first);
        return ExitCode.OK;
    }

    private static RunOptions options(Arguments arguments, TrainPage page, Path configFile) {
        return new RunOptions(
                arguments.has(RESUME),
                arguments.integer(FROM_STEP, 0, 1, Integer.MAX_VALUE),
                arguments.integer(STEPS, Integer.MAX_VALUE, 1, Integer.MAX_VALUE),
                List.of(page, new RunFolder.SavedConfig(configFile)),
                Map.of(
                        "command",
                        page.command(),
                        "threads",
                        String.valueOf(arguments.threads()),
                        RunFolder.MODEL,
                        arguments.operand(0).toAbsolutePath().toString(),
                        RunFolder.CONFIG_FOLDER,
                        RunFolder.parent(configFile).toString()));
    }

    private static ExitCode run(Trainer trainer, TrainPage page, Path folder, RunOptions options) throws IOException {
        InterruptibleRun run = new InterruptibleRun(new Interruption(), new CountDownLatch(1));
        Ending.begin(run);
        try {
            List<TrainingHook> hooks = new ArrayList<>(options.hooks());
            hooks.addFirst(run.interruption());
            RunEnd end = trainer.run(folder, options.withHooks(hooks));
            page.end(end);
            return switch (end.reason()) {
                case COMPLETED, INTERRUPTED -> ExitCode.OK;
                case DIVERGED, NON_FINITE, FAILED -> ExitCode.CHECK_FAILED;
            };
        } finally {
            run.ended().countDown();
            Ending.end(run);
        }
    }

    static Device device(Arguments arguments) {
        String name = arguments.text(DEVICE).orElse("cpu");
        return switch (name) {
            case "cpu" -> CpuDevice.of(arguments.threads());
            case "reference" -> new ReferenceDevice();
            default -> {
                if (name.matches("cuda(:\\d{1,4})?")) {
                    int ordinal = name.contains(":") ? Integer.parseInt(name.substring(name.indexOf(':') + 1)) : 0;
                    yield new CudaDevice(Gpus.find(ordinal).orThrow());
                }
                throw arguments.usage("unknown device '" + name + "'", "valid: cpu, cuda, cuda:N, reference");
            }
        };
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

    /** A run that ends after the step that is being done, or at once when it has not begun. */
    private record InterruptibleRun(Interruption interruption, CountDownLatch ended) implements Ending.Work {
        @Override
        public String ask() {
            return interruption.ask() ? "the run ends after this step, with a checkpoint" : "";
        }

        @Override
        public void await() throws InterruptedException {
            ended.await();
        }
    }
}
